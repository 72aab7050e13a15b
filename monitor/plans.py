"""What follows from a configuration for intake: early drop, kept attributes, redaction before the store. Pure."""

from __future__ import annotations

from functools import partial

from monitor.configuration import Configuration
from monitor.intake.options import Redact
from monitor.intake.sink import EarlyDrop
from monitor.judging.redact import redacted
from monitor.sampling import looks_at_tools, sampling_rule
from monitor.settings.privacy import before_store
from monitor.settings.tree import Settings


def early_drop(configuration: Configuration) -> EarlyDrop:
    """The largest rate of all monitors, where every one of them draws by the trace id alone (contract section 2): level `invocation`, no salt,
    no `always`. Without monitors, and at rate 1, nothing is dropped.
    """
    rates = []
    for name, monitor in configuration.settings.monitors.items():
        rule = sampling_rule(monitor, needs_judge=configuration.needs_judge(name))
        if monitor.level != "invocation" or rule.salt or rule.always is not None:
            return EarlyDrop(None)
        rates.append(rule.rate)
    largest = max(rates, default=1.0)
    return EarlyDrop(largest if largest < 1.0 else None)


def kept_attributes(settings: Settings) -> tuple[str, ...]:
    """Attribute keys that invocations keep: those of `assembly.keep_attributes`, and those that a monitor selects by."""
    keys = dict.fromkeys(settings.assembly.keep_attributes)
    for monitor in settings.monitors.values():
        for select in (monitor.select, monitor.sample.always):
            keys.update(dict.fromkeys(select.attributes if select else ()))
    return tuple(keys)


def selects_by_tools(settings: Settings) -> bool:
    """Whether any monitor selects by the tools that were called."""
    return any(looks_at_tools(monitor) for monitor in settings.monitors.values())


def store_redaction(settings: Settings) -> Redact | None:
    """What is replaced before content is stored, where `privacy.redact.before` has `store`."""
    redaction = before_store(settings.privacy.redact)
    return partial(redacted, redaction=redaction) if redaction else None
