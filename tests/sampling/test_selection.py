"""Which candidates a `select` matches, and which key it says did not."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.sampling import Selection
from monitor.settings.tree import Select
from tests.sampling.population import candidate


def mismatch(select: dict[str, Any], **changes: Any) -> str | None:
    """The key of `select` that a candidate with these changes fails."""
    return Selection.of(Select.model_validate(select)).mismatch(candidate(**changes))


def test_an_empty_selection_matches_everything() -> None:
    """A monitor without `select` is about all invocations."""
    assert mismatch({}) is None
    assert mismatch({}, agent_name=None, service=None, environment=None, has_error=True) is None


@pytest.mark.parametrize(
    ("glob", "agent", "matches"),
    [
        ("restaurant-*", "restaurant-bot", True),
        ("restaurant-*", "my-restaurant-bot", False),
        ("restaurant", "restaurant-bot", False),
        ("Restaurant-*", "restaurant-bot", False),
        ("restaurant-?ot", "restaurant-bot", True),
        ("restaurant-[bc]ot", "restaurant-bot", True),
        ("restaurant-[!b]ot", "restaurant-bot", False),
        ("a\nb", "a\nb", True),
        ("*", "several\nlines", True),
    ],
)
def test_a_glob_is_case_sensitive_and_matches_the_whole_value(glob: str, agent: str, matches: bool) -> None:
    """Globs never match a part of a value, nor another case."""
    assert mismatch({"agent": glob}, agent_name=agent) == (None if matches else "agent")


def test_list_values_are_joined_by_or_and_excludes_win() -> None:
    """One glob of a list is enough, unless a `!` glob matches too, wherever it stands in the list."""
    select = {"agent": ["!restaurant-test", "restaurant-*", "cafe-*"]}
    assert mismatch(select, agent_name="cafe-1") is None
    assert mismatch(select, agent_name="restaurant-bot") is None
    assert mismatch(select, agent_name="restaurant-test") == "agent"
    assert mismatch(select, agent_name="other") == "agent"


def test_a_list_of_only_excludes_matches_the_rest() -> None:
    """`!` alone means everything but that, also where the key is absent."""
    assert mismatch({"agent_version": "!1.*"}, agent_version="2.0") is None
    assert mismatch({"agent_version": ["!1.*"]}, agent_version="1.4") == "agent_version"
    assert mismatch({"agent_version": "!1.*"}, agent_version=None) is None


def test_keys_are_joined_by_and_and_the_first_that_fails_is_named() -> None:
    """All keys must match; what is told is the first in the contract's order, never a value."""
    select = {"agent": "restaurant-*", "environment": "production", "model": "gpt-*", "has_error": False}
    assert mismatch(select) is None
    assert mismatch(select, environment="staging", model="claude") == "model"
    assert mismatch(select, has_error=True) == "has_error"


def test_null_matches_only_an_absent_key() -> None:
    """A null asks for invocations that lack the key; leaving the key out asks for nothing."""
    assert mismatch({"agent_version": None}, agent_version=None) is None
    assert mismatch({"agent_version": None}) == "agent_version"
    assert mismatch({"agent": None}, agent_name=None) is None
    assert mismatch({"agent": None}) == "agent"
    assert mismatch({"attributes": {"tenant": None}}) is None
    assert mismatch({"attributes": {"tenant": None}}, attributes={"tenant": "a"}) == "attributes.tenant"


def test_an_absent_key_matches_no_glob() -> None:
    """`*` means any value, not none."""
    assert mismatch({"environment": "*"}, environment=None) == "environment"


def test_agent_is_what_the_label_shows() -> None:
    """Without an agent name the service name is the agent, and without both `unknown` is."""
    assert mismatch({"agent": "bookings"}, agent_name=None) is None
    assert mismatch({"agent": "unknown"}, agent_name=None, service=None) is None


def test_tool_looks_at_every_tool_called() -> None:
    """One called tool that matches is enough, one that is excluded is too, and a null asks for no call at all."""
    assert mismatch({"tool": "book_*"}) is None
    assert mismatch({"tool": "refund"}) == "tool"
    assert mismatch({"tool": ["*", "!find_table"]}) == "tool"
    assert mismatch({"tool": "!refund"}) is None
    assert mismatch({"tool": None}, tools=()) is None
    assert mismatch({"tool": None}) == "tool"


@pytest.mark.parametrize(
    ("value", "glob"),
    [("gold", "g*"), (True, "true"), (7, "7"), (0.5, "0.5"), (["a", "b"], "b"), ({"k": 1}, '{"k":1}')],
)
def test_attributes_are_matched_by_their_text(value: Any, glob: str) -> None:
    """Attributes of any type can be selected by; of a list one member is enough."""
    select = {"attributes": {"tenant.tier": glob}}
    assert mismatch(select, attributes={"tenant.tier": value}) is None
    assert mismatch(select, attributes={"tenant.tier": "other"}) == "attributes.tenant.tier"
    assert mismatch(select) == "attributes.tenant.tier"


def test_the_other_heads_are_selected_by_name() -> None:
    """service, operation and collector are keys of their own."""
    assert mismatch({"service": "book*", "operation": "invoke_agent", "collector": "otlp*"}) is None
    assert mismatch({"service": "x"}) == "service"
    assert mismatch({"operation": "create_agent"}) == "operation"
    assert mismatch({"collector": "otlp/second"}) == "collector"
