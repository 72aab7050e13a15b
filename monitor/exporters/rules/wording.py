"""The annotations of alerts: what happened in words, and where to look next.

They are templates of Prometheus and Grafana: names come from the alert's labels, so that no text of the configuration is read as a template.
Links are built of what identifies the alert; they carry no content.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from monitor.exporters.rules.rule import AlertName
from monitor.exporters.rules.source import RuledMonitor, RuleSource

VALUE = "$value"
"""How Prometheus' templates call the value of the expression; see `grafana` for the other word."""

PERCENT = f"{{{{ {VALUE} | humanizePercentage }}}}"
DURATION = f"{{{{ {VALUE} | humanizeDuration }}}}"

OVERVIEW, RUBRIC, JUDGE, PIPELINE = "rubricd-overview", "rubricd-rubric", "rubricd-judge", "rubricd-pipeline"
"""The uids of the dashboards in deploy/grafana."""


def label(name: str) -> str:
    """A label's value, as text."""
    return f"{{{{ $labels.{name} }}}}"


AGENT = f"{label('agent')}{{{{ if $labels.environment }}}} ({label('environment')}){{{{ end }}}}"
"""The agent, and its environment where it has one."""


def _in_url(name: str, known: Mapping[str, str]) -> str:
    return quote(known[name], safe="") if name in known else f"{{{{ $labels.{name} | urlquery }}}}"


class Wording:
    """Writes the annotations of one monitor's alerts, or of the daemon's own (`monitor` None). A monitor's own annotations come last and win."""

    def __init__(self, source: RuleSource, monitor: RuledMonitor | None = None) -> None:
        self._source = source
        self._monitor = monitor
        self._known = {} if monitor is None else monitor.matching

    def of_judges(self) -> Wording:
        """For series that tell no monitor, where the rules do not know it by name either."""
        return self if self._known else Wording(self._source)

    def annotations(
        self,
        alert: AlertName,
        summary: str,
        description: str,
        *,
        dashboard: str,
        look: str,
        labels: tuple[str, ...] = (),
    ) -> dict[str, str]:
        """All annotations of an alert. `look` is the path below the API with its fixed parameters; `labels` are known of each series."""
        own = ("monitor",) if self._monitor is not None else ()
        return {
            "summary": summary,
            "description": description,
            "runbook_url": f"{self._source.runbook}#{alert.lower()}",
            "dashboard_url": self._dashboard(dashboard, (*own, *labels)),
            "traces_url": self._look(look, (*own, *labels)),
            **(self._monitor.annotations if self._monitor is not None else {}),
        }

    def _dashboard(self, uid: str, labels: tuple[str, ...]) -> str:
        variables = [f"var-{name}={_in_url(name, self._known)}" for name in labels]
        return f"{self._source.dashboards}/d/{uid}" + (f"?{'&'.join(variables)}" if variables else "")

    def _look(self, path: str, labels: tuple[str, ...]) -> str:
        """Parameters that a path takes: runs and judges know monitors at most, health nothing."""
        taken = _PARAMETERS[path.partition("?")[0]]
        parts = [f"{name}={_in_url(name, self._known)}" for name in labels if name in taken]
        joined = "&".join(parts)
        glue = "&" if "?" in path else "?"
        return f"{self._source.server}{path}" + (f"{glue}{joined}" if joined else "")


_PARAMETERS: Mapping[str, frozenset[str]] = {
    "/api/v1/verdicts": frozenset({"monitor", "rubric", "agent"}),
    "/api/v1/evaluations": frozenset({"monitor", "rubric", "agent"}),
    "/api/v1/runs": frozenset({"monitor"}),
    "/api/v1/judges": frozenset(),
    "/api/v1/collectors": frozenset(),
    "/readyz": frozenset(),
}
"""What the places to look at take as parameters (monitor.server.endpoints; a test compares)."""
