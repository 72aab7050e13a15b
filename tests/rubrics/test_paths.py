"""Context mapping: paths into an invocation's JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.rubrics.kinds.paths import check_template, fill, find, parse_path

DATA = {
    "user_input": "A table?",
    "final_response": "Booked {{user_input}}.",
    "tool_calls": [
        {"name": "search", "arguments": {"q": "x"}, "result": "text"},
        {"name": "book", "arguments": {"day": "Fri"}, "result": {"id": 7, "ok": True}},
        {"name": "search", "arguments": {}, "result": None},
    ],
    "attributes": {"app.tenant": "moss", "list": [[1, 2], [3]]},
    "history": [],
}


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("{{user_input}}", "A table?"),
        ("{{ item.query }}", "A table?"),
        ("Asked: {{user_input}} of {{ attributes['app.tenant'] }}", "Asked: A table? of moss"),
        ("{{tool_calls[*].result}}", 'text\n{"id": 7, "ok": true}'),
        ("{{item.context}}", 'text\n{"id": 7, "ok": true}'),
        ("{{tool_calls[1].result.id}}", "7"),
        ("{{tool_calls[-2].name}}", "book"),
        ("{{tool_calls[?name=='book'].arguments}}", '{"day": "Fri"}'),
        ('{{tool_calls[?@.name == "search"].result}}', "text"),
        ("{{attributes.list[*][0]}}", "1\n3"),
        ("{{final_response}}", "Booked {{user_input}}."),
        ("{{$.user_input}}", "A table?"),
        ("{{$['tool_calls'][?(@.name == 'book')].result.id}}", "7"),
    ],
)
def test_places_are_filled(template: str, filled: str) -> None:
    """Names, quoted names, indexes, all items and filters find their values; several stand on lines; filled text is not filled again."""
    check_template(template)
    assert fill(template, DATA) == filled


@pytest.mark.parametrize(
    "template", ["{{history}}", "{{tool_calls[7].name}}", "{{attributes.other}}", "{{tool_calls[?name=='x'].result}}", "{{user_input.x}} {{user_input}}"]
)  # fmt: skip
def test_nothing_found(template: str) -> None:
    """A path that finds nothing, or only empty values, leaves no text at all: half a section is none."""
    check_template(template)
    assert fill(template, DATA) is None


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("no places", "has no `{{…}}`"),
        ("{{answer}}", "does not begin with a field of the invocation"),
        ("{{user_input[}}", "cannot be read from its character 11 on"),
        ("{{}}", "does not begin"),
        ("{{tool_calls[?name=~'x']}}", "cannot be read"),
        ("{{completeness}}", "does not begin"),
    ],
)
def test_paths_that_cannot_be_read(template: str, message: str) -> None:
    """A wrong path is refused when the rubric is read, with its place."""
    with pytest.raises(ValueError, match=message.replace("{", "\\{").replace("[", "\\[")):
        check_template(template)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_any_data(data: object) -> None:
    """Whatever the data look like, a path finds something or nothing and never raises."""
    for path in ("tool_calls[*].result", "user_input.a[0]['b c'][?d=='e']"):
        find({"tool_calls": data, "user_input": data}, parse_path(path))
