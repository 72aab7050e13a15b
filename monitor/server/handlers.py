"""What each endpoint answers, its parameters already checked. What blocks is run in threads."""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from monitor.labels.labels import Labels
from monitor.model.browsing import DIALECTS_FROM
from monitor.model.run import Page, Query
from monitor.model.wire import invocation_json
from monitor.server import answers
from monitor.server.context import Phase, ServerContext, Status
from monitor.server.endpoints import ENDPOINTS
from monitor.server.labelling import drawn_json, reports_json, take_labels
from monitor.server.openapi import document
from monitor.server.parameters import read_trace_id
from monitor.server.problems import BadParameter, Refused
from monitor.settings.document import ConfigurationError

JSON = "application/json"
GZIP_FROM_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as handlers see it: values of path and query by name, and headers."""

    path: Mapping[str, str]
    query: Mapping[str, Any]
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """Body, media type, status and further headers."""

    body: bytes
    content_type: str = JSON
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


def json_answer(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    """A value as JSON."""
    return Answer(answers.to_json(value), status=status)


Handler = Callable[[Asked], Awaitable[Answer]]
InThread = Callable[[Callable[[], Answer]], Awaitable[Answer]]
"""Runs what blocks in a thread."""


class Handlers:
    """The answers by endpoint name, in `table`. Health and metrics block in `probes`, all else in `reads`. `problem` is that of the server's port."""

    def __init__(
        self,
        context: ServerContext,
        probes: InThread,
        reads: InThread,
        problem: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._context, self._problem = context, problem
        self._store = context.store
        self._probes = probes
        self._reads = reads
        self.table: Mapping[str, Handler] = {
            "metrics": lambda asked: probes(lambda: self._metrics(asked)),
            "healthz": self._healthz,
            "readyz": self._readyz,
            "reload": self._reload,
            "collectors": lambda _: self._told(context.collectors),
            "judges": lambda _: self._told(context.judges),
            "backfill_list": self._reading(lambda _: json_answer(answers.whole(context.backfills()))),
            "backfills": self._reading(self._begin_backfill),
            "regressions": self._reading(self._regressions),
            "cancel_backfill": self._reading(self._cancel_backfill),
            "acknowledge": self._reading(self._acknowledge),
            "label_draws": self._reading(self._label_draws),
            "labels": self._reading(lambda asked: json_answer(take_labels(self._labels(), asked.body))),
            "label_report": self._reading(
                lambda asked: json_answer(answers.whole(reports_json(self._labels(), asked.query)))
            ),
            "openapi": self._openapi,
            "monitors": self._monitors,
            "invocations": self._reading(lambda asked: self._listed(asked, self._store.list_invocations)),
            "invocation": self._reading(self._invocation),
            "revisions": self._reading(self._revisions),
            "forget": self._reading(self._forget),
            "verdicts": self._reading(self._verdicts),
            "dialects": self._reading(self._dialects),
            "trace": self._reading(self._trace),
            "decisions": self._reading(self._decisions),
            "evaluations": self._reading(lambda asked: self._listed(asked, self._store.list_evaluations)),
            "runs": self._reading(lambda asked: self._listed(asked, self._store.list_runs)),
        }

    def _reading(self, answer: Callable[[Asked], Answer]) -> Handler:
        return lambda asked: self._reads(lambda: answer(asked))

    async def _told(self, status: Callable[[], Sequence[Status]]) -> Answer:
        return json_answer(answers.whole(status()))

    # -- figures and health
    def _metrics(self, asked: Asked) -> Answer:
        body, content_type = self._context.scrape(asked.headers.get("Accept", ""))
        headers = {"Vary": "Accept, Accept-Encoding"}
        if len(body) >= GZIP_FROM_BYTES and "gzip" in asked.headers.get("Accept-Encoding", ""):
            body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
        return Answer(body, content_type, headers=headers)

    async def _healthz(self, _asked: Asked) -> Answer:
        return json_answer({"status": "ok"})

    async def _readyz(self, _asked: Asked) -> Answer:
        collectors, judges = self._context.collectors(), self._context.judges()

        def answer() -> Answer:
            readiness = self._context.readiness()
            status = HTTPStatus.OK if readiness.phase is Phase.READY else HTTPStatus.SERVICE_UNAVAILABLE
            return json_answer(answers.readiness_json(readiness, collectors, judges, self._problem()), status)

        return await self._probes(answer)

    async def _reload(self, _asked: Asked) -> Answer:
        try:
            await self._context.reload()
        except ConfigurationError as error:
            faults = [str(fault) for fault in error.faults]
            detail = "the configuration is wrong and the old one stays in force"
            raise Refused(HTTPStatus.BAD_REQUEST, f"{detail}: {'; '.join(faults)}", faults=faults) from None
        return json_answer({"status": "reloaded"})

    async def _openapi(self, _asked: Asked) -> Answer:
        return json_answer(document(ENDPOINTS, self._context.settings.external_url))

    async def _monitors(self, _asked: Asked) -> Answer:
        monitors = self._context.monitors()
        return await self._reads(lambda: json_answer(answers.whole([self._monitor(one) for one in monitors])))

    def _monitor(self, monitor: Status) -> Mapping[str, Any]:
        name = monitor["name"]
        return answers.monitor_json(monitor, self._store.last_run(name), self._context.passrates.rates(name))

    def _dialects(self, _asked: Asked) -> Answer:
        return json_answer(answers.whole([answers.dialect_json(one) for one in self._store.dialects(DIALECTS_FROM)]))

    def _regressions(self, _asked: Asked) -> Answer:
        link = self._context.trace_link()
        return json_answer(answers.whole([answers.regression_json(one, link) for one in self._context.regressions()]))

    def _acknowledge(self, asked: Asked) -> Answer:
        found = self._context.acknowledge(asked.path["id"])
        if found is None:
            raise Refused(HTTPStatus.NOT_FOUND, "no regression of that id stands; GET /api/v1/regressions lists them")
        return json_answer(answers.regression_json(found, self._context.trace_link()))

    def _label_draws(self, asked: Asked) -> Answer:
        return json_answer(answers.whole(drawn_json(self._labels(), asked.query, self._context.clock.now())))

    def _labels(self) -> Labels:
        if self._context.labels is None:
            raise Refused(HTTPStatus.NOT_FOUND, "this process keeps no labels")
        return self._context.labels

    def _cancel_backfill(self, asked: Asked) -> Answer:
        found = self._context.cancel_backfill(asked.path["id"])
        if found is None:
            raise Refused(HTTPStatus.NOT_FOUND, "no backfill of that id is known; GET /api/v1/backfills lists them")
        return json_answer(found)

    def _begin_backfill(self, asked: Asked) -> Answer:
        try:
            return json_answer(self._context.begin_backfill(asked.query))
        except ValueError as error:
            raise Refused(HTTPStatus.BAD_REQUEST, str(error)) from None

    # -- content
    def _listed(self, asked: Asked, read: Callable[[Query], Page]) -> Answer:
        return json_answer(answers.listing(read(query_of(asked.query))))

    def _verdicts(self, asked: Asked) -> Answer:
        page = self._store.list_verdicts(query_of(asked.query))
        items = answers.with_trace_links(page.items, self._context.trace_link())
        return json_answer(answers.listing(Page(tuple(items), page.next_cursor)))

    def _invocation(self, asked: Asked) -> Answer:
        found = self._store.invocation(asked.path["id"])
        if found is None:
            raise Refused(HTTPStatus.NOT_FOUND, "no invocation of that id is stored")
        return json_answer(invocation_json(found))

    def _revisions(self, asked: Asked) -> Answer:
        kept = self._store.earlier_revisions(asked.path["id"])
        items = [{"invocation": invocation_json(one.invocation), "verdicts": list(one.verdicts)} for one in kept]
        return json_answer(answers.whole(items))

    def _trace(self, asked: Asked) -> Answer:
        try:
            trace_id = read_trace_id(asked.path["trace_id"])
        except ValueError as error:
            raise BadParameter("trace_id", str(error)) from None
        found = self._store.trace(trace_id)
        if found is None or not found.invocations:
            raise Refused(
                HTTPStatus.NOT_FOUND, "no invocation of this trace is stored: it has not settled, or has none"
            )
        return json_answer(answers.trace_json(found))

    def _decisions(self, asked: Asked) -> Answer:
        return json_answer(answers.whole(self._store.decisions(asked.query["trace_id"])))

    def _forget(self, asked: Asked) -> Answer:
        query = asked.query
        if ("trace_id" in query) == ("conversation_id" in query):
            raise BadParameter("trace_id", "give trace_id or conversation_id, one of them")
        if "trace_id" in query and len(query) > 1:
            raise BadParameter(next(name for name in query if name != "trace_id"), "goes with conversation_id only")
        told = {}
        if "conversation_id" in query:
            names = ("conversation_id", "service", "environment", "turns")
            found = self._store.conversations_named(**query)
            told["conversations"] = [dict(zip(names, (*key, turns), strict=True)) for key, turns in found]
        return json_answer({"forgotten": self._store.forget(**query, now=self._context.clock.now()), **told})


def query_of(values: Mapping[str, Any]) -> Query:
    """A listing's parameters as the store takes them; the outcome of a run is its state."""
    renamed = {"state" if name == "outcome" else name: value for name, value in values.items()}
    return Query(**renamed)
