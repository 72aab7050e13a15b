"""Rubric documents: what is taken, and how every fault is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from monitor.resources import config_folder
from monitor.rubrics.files import read_file, read_text, rubric_schema
from monitor.rubrics.kinds.graded import GradedSpec
from monitor.rubrics.kinds.properties import PropertiesSpec
from monitor.rubrics.library import RubricLibrary
from monitor.settings.document import ConfigurationError
from tests.support.judging import rubric

SHIPPED = RubricLibrary.shipped(config_folder() / "rubrics")

CONTRACT = """
name: booking
kind: weighted
threshold: 0.5
veto: false
requires: [tool_definitions]
prompt: 1
dimensions:
  - {id: policy_enforcement, weight: 5, description: "Enforces business rules: …"}
  - {id: general_quality, weight: 5, always_applicable: true, description: "…"}
---
name: answer_facts
kind: properties
about: final_response
threshold: 0.8
num_samples: 5
properties:
  - {id: numbered_list, text: "The final answer is formatted as a numbered list."}
---
name: no_blame
statement: "The answer never blames the customer."
---
name: tone
kind: graded
levels: {1: rude, 2: curt, 3: neutral, 4: friendly, 5: "warm and clear"}
threshold: 4
---
name: party_size_limit
kind: check
expect:
  tool_arguments: {tool: book_table, schema: {properties: {party_size: {maximum: 8}}}}
"""


def faults(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as error:
        read_text(text, "r.yaml", SHIPPED.guides)
    return [str(fault) for fault in error.value.faults]


def test_the_contracts_examples() -> None:
    """Every example of the contract but `code` is read as it stands."""
    read = {item.rubric.name: item.rubric for item in read_text(CONTRACT, "contract.yaml")}
    assert {name: (item.kind, item.threshold, item.judged) for name, item in read.items()} == {
        "booking": ("weighted", 0.5, True),
        "answer_facts": ("properties", 0.8, True),
        "no_blame": ("properties", 1.0, True),
        "tone": ("graded", 4.0, True),
        "party_size_limit": ("check", 1.0, False),
    }
    assert read["booking"].requires == ("tool_definitions",)


def test_the_shortest_form() -> None:
    """A name and a statement are a rubric of one property."""
    spec = rubric('{name: no_blame, statement: "Never blames."}').spec
    assert isinstance(spec, PropertiesSpec)
    assert [(item.id, item.text) for item in spec.properties] == [("statement", "Never blames.")]


def test_pass_threshold_is_threshold() -> None:
    """The other name of the threshold is taken, and a fault in it shows its own line."""
    assert rubric("{name: a, statement: x, pass_threshold: 0.3}").threshold == 0.3
    assert faults("name: a\nstatement: x\n\npass_threshold: 3") == [
        "r.yaml:4: threshold: should be less than or equal to 1"
    ]
    both = faults("name: a\nstatement: x\nthreshold: 1\npass_threshold: 1")
    assert both == ["r.yaml:4: pass_threshold: is the same as `threshold`: give one of them"]


def test_guides_of_shipped_rubrics() -> None:
    """`guide` takes instructions, levels, threshold and needs of a shipped graded rubric; what the file says itself counts."""
    (read,) = read_text("{name: mine, kind: graded, guide: groundedness, threshold: 4}", "r.yaml", SHIPPED.guides)
    spec, guide = read.rubric.spec, SHIPPED.get("groundedness").spec
    assert isinstance(spec, GradedSpec)
    assert isinstance(guide, GradedSpec)
    assert (spec.levels, spec.instructions, spec.requires) == (guide.levels, guide.instructions, guide.requires)
    assert (spec.name, spec.threshold, spec.description) == ("mine", 4.0, None)


FAULTY = [
    ("name: a\nkind: weighted\ndimension: []", "r.yaml:3: dimension: is no key here; did you mean `dimensions`?"),
    ("name: a\nkind: weighted\ndimensions:\n- {id: x, wieght: 2, description: d}", "r.yaml:4: dimensions[0].wieght: is no key here; did you mean `weight`?"),
    ("name: a\nkind: weighted\ndimensions:\n- {id: x, weight: 0, description: d}", "r.yaml:4: dimensions[0].weight: should be greater than 0"),
    ("name: a\nkind: weighted\ndimensions:\n- {id: x, weight: yes, description: d}", "r.yaml:4: dimensions[0].weight: should be a number"),
    ("name: a\nkind: weighted\ndimensions:\n- {id: x, weight: .nan, description: d}", "r.yaml:4: dimensions[0].weight: should be a finite number"),
    ("name: a\nkind: weighted\ndimensions:\n- {id: x, description: d}\n- {id: x, description: e}", "r.yaml:3: dimensions: the id 'x' is given twice"),
    ("name: a\nkind: weighted\nthreshold: yes\ndimensions: [{id: x, description: d}]", "r.yaml:3: threshold: should be a number"),
    ("name: a\nkind: properties\nproperties: []", "r.yaml:3: properties: has 0 entries: give 1 to 50"),
    ("name: a\nkind: graded\nlevels: {1: x, 5: y}\nthreshold: 6", "r.yaml:4: threshold: 6 is not on the scale from 1 to 5"),
    ("name: a\nkind: graded\nlevels: {1: x, good: y}\nthreshold: 1", "r.yaml:3: levels.good: a level is a whole number"),
    ("name: a\nkind: graded\nlevels: {1: x}\nthreshold: 1", "r.yaml:3: levels: has no two levels"),
    ("name: a\nkind: graded\nguide: groundednes", "r.yaml:3: guide: is no shipped guide; did you mean `groundedness`?"),
    ("name: a\nkind: check\nexpect: {}", "r.yaml:3: expect: expects nothing; one or more of tool_called"),
    ("name: a\nkind: check\nexpect: {no_tool_error: true}", "r.yaml:3: expect.no_tool_error: is no key here; did you mean `no_tool_errors`?"),
    ("name: a\nkind: check\nexpect: {no_error: false}", "r.yaml:3: expect.no_error: should be true"),
    ("name: a\nkind: check\nexpect: {required_text: []}", "r.yaml:3: expect.required_text: is empty: give one text or a list of texts"),
    ("name: a\nkind: check\nexpect: {forbidden_regex: '(a'}", "r.yaml:3: expect.forbidden_regex: missing ): (a; patterns are RE2"),
    ("name: a\nkind: check\nexpect:\n  final_response_schema: {type: objekt}", "r.yaml:4: expect.final_response_schema: no JSON Schema at $.type"),
    ("name: a\nkind: check\nexpect:\n  final_response_schema: {$ref: 'https://example.org/x'}", "r.yaml:4: expect.final_response_schema: `$ref` can only point into the same schema"),
    ("name: a\nkind: check\nexpect: {max_latency: 5}", "r.yaml:3: expect.max_latency: 5 is no duration"),
    ("name: a\nkind: check\nrequires: [tools]\nexpect: {no_error: true}", "r.yaml:3: requires[0]: 'tools' cannot be required; these can: context"),
    ("name: a\nstatement: x\nquorum: 2", "r.yaml:3: quorum: 2 of 1 samples cannot be reached"),
    ("name: a\nstatement: x\nprompt: 2", "r.yaml:3: prompt: there is no revision 2 of the prompt; the newest is 1"),
    ("name: a\nkind: chek", "r.yaml:2: kind: should be one of weighted, properties, graded, claims, check, code"),
    ("name: a", "r.yaml:1: kind: is missing: one of weighted, properties, graded, claims, check, code; or give a `statement`"),
    ("name: a\nkind: code\ncommand: [x]\nfunction: 'a:b'", "r.yaml:1: give `command` or `function`, one of them"),
    ("name: a\nkind: code\nfunction: ab", "r.yaml:3: function: should be `module:function`"),
    ("name: a\nkind: code\ncommand: x\nfolder: /", "r.yaml:4: folder: is no key here"),
    ("name: a\nkind: check\nstatement: x", "r.yaml:3: statement: makes a rubric of one property"),
    ("name: a\nstatement: ''", "r.yaml:2: statement: should be a sentence"),
    ("name: ''\nstatement: x", "r.yaml:1: name: a name has 1 to 64 printable characters"),
    (f"name: {'x' * 65}\nstatement: x", "r.yaml:1: name: a name has 1 to 64 printable characters"),
    ('name: "a\\tb"\nstatement: x', "r.yaml:1: name: a name has 1 to 64 printable characters"),
    ("- a", "r.yaml:1: a rubric is a map with `name` and `kind`"),
    ("name: [", "r.yaml:1: no YAML:"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), FAULTY)
def test_faults_name_line_key_and_what_would_be_right(text: str, expected: str) -> None:
    """A fault in a rubric file is shown as `file:line: key: reason`, with the nearest known key."""
    assert any(fault.startswith(expected) for fault in faults(text)), faults(text)


def test_all_faults_of_a_file_at_once() -> None:
    """Faults of several documents are found together."""
    assert len(faults("name: a\n---\nname: b\nkind: chek\n---\nname: c\nstatement: ''")) == 3


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file and one that is not UTF-8 are faults that name the file."""
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        read_file(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9")
    with pytest.raises(ConfigurationError, match=r"latin\.yaml: cannot be read: not UTF-8"):
        read_file(tmp_path / "latin.yaml")


def test_the_schema_takes_what_is_read() -> None:
    """The published JSON Schema is one, and takes the contract's examples and the shipped rubrics."""
    import yaml

    schema = rubric_schema()
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    texts = [CONTRACT, *(path.read_text() for path in sorted((config_folder() / "rubrics").glob("*.yaml")))]
    for document in (d for text in texts for d in yaml.safe_load_all(text)):
        as_json: Any = json.loads(json.dumps(document))
        assert validator.is_valid(as_json), document["name"]
    assert not validator.is_valid({"name": "a", "kind": "weighted", "dimension": []})
    assert not validator.is_valid({"name": "a", "kind": "chek"})
