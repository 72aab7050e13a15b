"""Verdicts as `gen_ai.evaluation.result` log records over OTLP, for whoever keeps them beside the traces (contract section 5).

Records queue in memory and leave in the background; what cannot be sent is lost and logged by the SDK. The store has every verdict, so nothing
here may hold an evaluation up or fail it. OpenTelemetry and gRPC are imported when an exporter is made, not before.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from monitor.model.verdict import Verdict
from monitor.settings.tree import OtlpExporter
from monitor.version import __version__

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk._logs.export import LogRecordExporter

LOG = logging.getLogger(__name__)

EVENT_NAME = "gen_ai.evaluation.result"
RESOURCE: Mapping[str, str | bool] = {
    "service.name": "rubricd",
    "service.version": __version__,
    "rubricd.internal": True,
}
"""Collectors drop what comes from this resource, so that a fan-out cannot loop."""

SEND_TIMEOUT_SECONDS = 10.0
QUEUE_RECORDS = 8192


class EvaluationExporter:
    """Sends a record for each verdict and each failed evaluation. `emit` may be called from any thread and never raises."""

    def __init__(self, settings: OtlpExporter) -> None:
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
        from opentelemetry.sdk.resources import Resource

        self._explanations = settings.explanations
        self._provider = LoggerProvider(Resource(RESOURCE), shutdown_on_exit=False)
        self._provider.add_log_record_processor(
            BatchLogRecordProcessor(_log_exporter(settings), schedule_delay_millis=1000, max_queue_size=QUEUE_RECORDS)
        )
        self._logger = self._provider.get_logger("rubricd", __version__)

    def emit(self, verdict: Verdict) -> None:
        """Queue a record of the verdict. A fault is logged by its kind alone, for its message could quote content."""
        try:
            judged_at = int(verdict.judged_at * 1e6) * 1000
            self._logger.emit(
                timestamp=judged_at,
                observed_timestamp=judged_at,
                context=_root_context(verdict.trace_id, verdict.span_id),
                event_name=EVENT_NAME,
                attributes=attributes(verdict, self._explanations),
            )
        except Exception as error:
            LOG.warning("an evaluation result was not exported: %s", type(error).__name__)

    def close(self, timeout_seconds: float) -> bool:
        """Send what is queued and stop, within the time; False when something may be left. Called once, at the end."""
        sending = threading.Thread(target=self._provider.shutdown, name="evaluation-export-close", daemon=True)
        sending.start()
        sending.join(timeout_seconds)
        return not sending.is_alive()


def attributes(verdict: Verdict, explanations: bool = False) -> Mapping[str, str | float]:
    """The attributes of a record, without what is not known. A failed evaluation has `error.type` and no score."""
    judged = verdict.judgement
    failed = judged.failure is not None or judged.outcome is None
    found: dict[str, str | float | None] = {
        "gen_ai.evaluation.name": verdict.rubric,
        "gen_ai.evaluation.score.value": None if failed else judged.score,
        "gen_ai.evaluation.score.label": None if failed or judged.outcome is None else judged.outcome.value,
        "gen_ai.evaluation.explanation": judged.explanation or None if explanations else None,
        "error.type": judged.failure.type.value if judged.failure else None,
        "gen_ai.agent.name": verdict.agent_name,
        "gen_ai.conversation.id": verdict.conversation_id,
        "rubricd.monitor": verdict.monitor,
        "rubricd.rubric.version": verdict.rubric_version,
        "rubricd.judge.model": judged.judge_model,
        "rubricd.inclusion_probability": verdict.inclusion_probability,
    }
    return {name: value for name, value in found.items() if value is not None}


def _root_context(trace_id: str, span_id: str) -> Context:
    """A context in which the invocation's root is the current span; an empty one where the ids are none."""
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    try:
        ids = int(trace_id, 16), int(span_id, 16)
    except ValueError:
        return Context()
    return set_span_in_context(NonRecordingSpan(SpanContext(*ids, True, TraceFlags(TraceFlags.SAMPLED))), Context())


def _log_exporter(settings: OtlpExporter) -> LogRecordExporter:
    headers = {name.lower(): value.get_secret_value() for name, value in settings.headers.items()}
    insecure = is_plaintext(settings)
    if settings.protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcExporter

        return GrpcExporter(
            endpoint=settings.endpoint, insecure=insecure, headers=headers or None, timeout=SEND_TIMEOUT_SECONDS
        )
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpExporter

    return HttpExporter(endpoint=logs_url(settings), headers=headers or None, timeout=SEND_TIMEOUT_SECONDS)


def is_plaintext(settings: OtlpExporter) -> bool:
    """Whether records go without TLS: as the URL's scheme says; a bare `host:port` goes by `insecure`, else by TLS where headers carry secrets."""
    scheme = urlsplit(settings.endpoint).scheme if "://" in settings.endpoint else ""
    if scheme:
        return scheme != "https"
    return settings.insecure if settings.insecure is not None else not settings.headers


def logs_url(settings: OtlpExporter) -> str:
    """The URL that OTLP/HTTP logs are posted to: the endpoint, with `/v1/logs` where it has no path of its own."""
    url = settings.endpoint
    if "://" not in url:
        url = f"{'http' if is_plaintext(settings) else 'https'}://{url}"
    return url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/v1/logs"
