"""The configuration tree of contract.md section 2: each key with its default and the reason for it.

Durations are seconds and sizes are bytes once parsed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from monitor.settings.globs import Globs
from monitor.settings.privacy import MonitorRedact, Privacy
from monitor.settings.section import Section
from monitor.settings.units import Duration, Period, Size, duration_text, parse_duration, size_text

DAY = 86400.0
LEAST_JOURNAL = 1024**2


class Journal(Section):
    """The durable spool in front of the store."""

    max_size: Size = Field(10 * 1024**3, description=f"At least {size_text(LEAST_JOURNAL)}.")
    max_age: Duration = DAY

    @field_validator("max_size")
    @classmethod
    def _holds_something(cls, value: int) -> int:
        if value < LEAST_JOURNAL:
            raise ValueError(f"is too small: {size_text(LEAST_JOURNAL)} at least, or nothing could be taken in")
        return value


class Retention(Section):
    """How long what is kept. Tallies and numbers outlive all of it."""

    content: Duration = 14 * DAY
    verdicts: Duration = 180 * DAY
    size: Size = 8 * 1024**3


class Storage(Section):
    """Where state lives."""

    path: str = "./rubricd-data"
    database: str = "sqlite"
    journal: Journal = Journal()
    retention: Retention = Retention()

    @field_validator("database")
    @classmethod
    def _only_sqlite_yet(cls, value: str) -> str:
        if value != "sqlite":
            raise ValueError("only `sqlite` can be used yet; PostgreSQL is promised for a later version")
        return value

    @model_validator(mode="after")
    def _known_as_long_as_journalled(self) -> Storage:
        """A trace must be known as settled for as long as its spans may lie in the journal, or a restart would judge and count it again."""
        if self.retention.verdicts <= self.journal.max_age:
            age = duration_text(self.journal.max_age)
            raise ValueError(
                f"retention.verdicts is too short: make it longer than journal.max_age, which is {age}, or a restart would judge traces twice"
            )
        return self


class LateSpans(StrEnum):
    """What spans of a settled trace do."""

    REJUDGE = "rejudge"
    IGNORE = "ignore"


class Assembly(Section):
    """When a trace is complete, and what is kept of it."""

    settle_after: Duration = 30.0  # the Python SDK flushes every 5 s, collectors add 10 to 30 s
    idle_timeout: Duration = 900.0
    max_age: Duration = 6 * 3600.0
    max_spans: int = Field(100_000, ge=1)
    max_open_spans: int = Field(2_000_000, ge=1000)  # of all traces that have not settled; each trace counts as 16 more
    conversation_idle: Duration = 1800.0
    late_spans: LateSpans = LateSpans.REJUDGE
    keep_attributes: tuple[str, ...] = ()


class Azure(Section):
    """An Azure OpenAI deployment."""

    endpoint: str
    api_version: str
    deployment: str


class Limits(Section):
    """What a judge may consume."""

    requests_per_minute: int | None = Field(None, ge=1)
    tokens_per_minute: int | None = Field(None, ge=1)
    tokens_per_day: int | None = Field(None, ge=1)
    usd_per_day: float | None = Field(None, gt=0)


class Prices(Section):
    """USD for a million tokens."""

    input_per_million: float = Field(ge=0)
    output_per_million: float = Field(ge=0)


class JudgeSettings(Section):
    """An OpenAI-compatible model that judges. There is no default model: naming one is the decision to spend."""

    model: str = Field(min_length=1)
    base_url: str = "https://api.openai.com/v1"
    azure: Azure | None = None
    api_key: SecretStr | None = None
    api_key_file: str | None = None
    timeout: Period = 60.0
    max_concurrency: int = Field(16, ge=1, le=4096)
    max_attempts: int = Field(5, ge=1, le=20)
    temperature: float | None = None
    max_tokens: int | None = Field(None, ge=16)
    limits: Limits = Limits()
    prices: Prices | None = None

    @field_validator("base_url")
    @classmethod
    def _is_a_url(cls, value: str) -> str:
        try:
            parts = urlsplit(value)
            right = parts.scheme in ("http", "https") and parts.hostname is not None and parts.port != 0
        except ValueError:
            right = False
        if not right:
            raise ValueError("is no URL: write one such as https://api.openai.com/v1")
        if parts.username is not None or parts.password is not None:
            raise ValueError("holds a user or a password: give the key by api_key: ${env:NAME}, or api_key_file")
        return value

    @model_validator(mode="after")
    def _prices_for_a_budget(self) -> JudgeSettings:
        if self.limits.usd_per_day is not None and self.prices is None:
            raise ValueError("limits.usd_per_day needs `prices`: without them the cost of a call is not known")
        if self.api_key is not None and self.api_key_file is not None:
            raise ValueError("give api_key or api_key_file, not both")
        return self


class Select(Section):
    """Which invocations a monitor is about: keys are joined by AND, list values by OR, `!` excludes."""

    agent: Globs | None = None
    agent_version: Globs | None = None
    model: Globs | None = None
    environment: Globs | None = None
    service: Globs | None = None
    operation: Globs | None = None
    tool: Globs | None = None
    collector: Globs | None = None
    attributes: dict[str, Globs | None] = Field(default_factory=dict)
    has_error: bool | None = None


class Sample(Section):
    """How many of the selected invocations are judged. `rate` and `max_per_hour` default by need of a judge (see Monitor)."""

    rate: float | None = Field(None, gt=0, le=1)
    max_per_hour: float | None = Field(None, gt=0)
    stratify_by: tuple[Literal["agent", "agent_version", "environment", "model", "service", "operation"], ...] = ()
    allocation: Literal["proportional", "neyman"] = "proportional"  # neyman: more where verdicts differed last week
    min_per_stratum: int = Field(1, ge=1)  # under neyman
    always: Select | None = None
    salt: str = ""


class Schedule(Section):
    """When runs happen: every so often (ticks on multiples since 1970-01-01Z), or by cron."""

    every: Duration | None = None
    cron: str | None = None
    timezone: str = "UTC"
    catch_up: int = Field(6, ge=1)

    @model_validator(mode="after")
    def _one_of(self) -> Schedule:
        if (self.every is None) == (self.cron is None):
            raise ValueError("give `every` or `cron`, one of them")
        if self.every is not None and self.every < 1:
            raise ValueError("`every` is at least 1s")
        return self


class MonitorRubric(Section):
    """A rubric in a monitor: its objective, its judge, and whether it only shadows (judged, not alerted on)."""

    objective: float | None = Field(None, gt=0, lt=1)
    judge: str | None = None
    shadow: bool = False


class Regression(Section):
    """How a regression is detected, and how often that may be in error."""

    against: tuple[Literal["objective", "baseline", "version"], ...] = ("objective",)
    false_alarm_every: str | int = "90d"  # or a number of judged invocations; shared by the monitor's series
    clear_after: int = Field(50, ge=1)
    baseline: int = Field(500, ge=50)  # the first judged invocations of a series, frozen
    tolerance: float = Field(0.02, ge=0, lt=0.5)  # how far below the baseline is put up with

    @field_validator("against", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("false_alarm_every")
    @classmethod
    def _often_enough(cls, value: str | int) -> str | int:
        if isinstance(value, int):
            if value < 100:
                raise ValueError("is a number of judged invocations, at least 100, or a duration such as 90d")
        elif parse_duration(value) < DAY:
            raise ValueError("is at least 1d, or a number of judged invocations such as 10000")
        return value


class Golden(Section):
    """Invocations with known answers that a monitor's judges are asked about again and again. Never changed: a drop means that the judge moved."""

    file: str  # JSON Lines of {"rubric": …, "label": pass or fail, "invocation": {…}}
    every: Period = DAY


class Trust(Section):
    """How a monitor's judges are checked. Nothing is asked twice unless it is asked for: each check is a paid call."""

    judge_twice: float = Field(0.0, ge=0, le=1)  # share of judged invocations
    golden: Golden | None = None


class Budget(Section):
    """What a monitor may consume of its judges in a day (UTC)."""

    tokens_per_day: int | None = Field(None, ge=1)
    usd_per_day: float | None = Field(None, gt=0)


def _or_names(schema: dict[str, Any]) -> None:
    """In JSON Schema: rubrics may be written as a plain list of names, too."""
    by_name = dict(schema)
    schema.clear()
    schema["anyOf"] = [by_name, {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True}]


class MonitorSettings(Section):
    """Which invocations are judged by which rubrics, when, and how many of them."""

    select: Select = Select()
    level: Literal["invocation", "conversation"] = "invocation"
    rubrics: dict[str, MonitorRubric] = Field(min_length=1, json_schema_extra=_or_names)
    sample: Sample = Sample()
    schedule: Schedule = Schedule(every="1m")
    windows: tuple[Period, ...] = Field((3600.0, DAY, 7 * DAY), min_length=1)
    interval: Literal["auto", "exact"] = "auto"  # exact: bounds that are never below 95 %, and wider
    bounds: Literal["agent", "window"] = (
        "agent"  # of what: what the agent does, or what the window's own invocations did
    )
    regression: Regression = Regression()
    budget: Budget = Budget()
    trust: Trust = Trust()
    max_unscored: float = Field(0.2, ge=0, le=1)
    include_incomplete: bool = True
    redact: MonitorRedact | None = None  # instead of privacy.redact, for this monitor's judges
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)

    @field_validator("rubrics", mode="before")
    @classmethod
    def _plain_list(cls, value: Any) -> Any:
        if isinstance(value, list) and all(isinstance(name, str) for name in value):
            return {name: {} for name in value}
        if not isinstance(value, dict):
            raise ValueError("should be a list of rubrics' names, or a map of them")
        return value


class OtlpExporter(Section):
    """Where `gen_ai.evaluation.result` log records go."""

    endpoint: str
    protocol: Literal["grpc", "http/protobuf"] = "grpc"
    insecure: bool | None = None
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    explanations: bool = False


class Exporters(Section):
    """What is sent out besides /metrics."""

    otlp: OtlpExporter | None = None


class Links(Section):
    """Where people look next: a trace viewer with `{trace_id}`, Grafana's URL, and the page with a section for each alert."""

    trace: str | None = None
    dashboards: str | None = None
    runbook: str | None = None


class Metrics(Section):
    """Limits of what /metrics shows."""

    max_series_per_metric: int = Field(10_000, ge=10)
    agent_versions: int = Field(5, ge=1)
    expire_after: Duration = 7 * DAY
    zero_for: Duration = 120.0


class ServerTls(Section):
    """TLS of a listener; with `client_ca_file` only clients with a certificate of that authority are served."""

    cert_file: str
    key_file: str
    client_ca_file: str | None = None


class ServerAuth(Section):
    """Bearer tokens, one a line; the file is read again when it changes."""

    bearer_token_file: str


def _address(text: str) -> str:
    """An address that people and their browsers use for the server."""
    try:
        parts = urlsplit(text)
        right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        right = False
    if not right or parts.query or parts.fragment or "@" in parts.netloc or any(char.isspace() for char in text):
        raise ValueError("is no address of a server: write one such as https://rubricd.example.org, without a query")
    return text


class Server(Section):
    """The HTTP port of metrics, health and API."""

    endpoint: str = "localhost:8464"
    external_url: Annotated[str, AfterValidator(_address)] | None = None
    final_scrape: Duration = (
        30.0  # how long a drain waits at most for a scraper that comes regularly to read the last figures
    )
    tls: ServerTls | None = None
    auth: ServerAuth | None = None


class Logging(Section):
    """Logs go to stderr and never carry content."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "text"] = "json"


class Settings(Section):
    """The whole configuration. `collectors` and `rubrics` are checked by their own parts (see `load`)."""

    collectors: dict[str, Any] = Field(default_factory=lambda: {"otlp": None})
    storage: Storage = Storage()
    privacy: Privacy = Privacy()
    assembly: Assembly = Assembly()
    judges: dict[str, JudgeSettings] = Field(default_factory=dict)
    rubric_files: tuple[str, ...] = ()
    rubrics: tuple[dict[str, Any], ...] = ()
    monitors: dict[str, MonitorSettings] = Field(default_factory=dict)
    exporters: Exporters = Exporters()
    links: Links = Links()
    metrics: Metrics = Metrics()
    server: Server = Server()
    logging: Logging = Logging()
