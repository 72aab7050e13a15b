"""Every vector of google-adk, azure-ai-evaluation and Foundry, and the table of docs/evaluators.md that says what we make of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.evaluator_vectors import way

TEXT = (Path(__file__).parents[2] / "docs" / "evaluators.md").read_text()
ID = re.compile(r"\b(?:adk|az|fdy)-\d{3}\b")


def section(title: str) -> str:
    """The part of the page under a heading."""
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """The cells of a table's rows, without its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


EQUAL = ID.findall(section("Equal"))
BETTER = {row[0]: row for row in rows("Better here")}
OUT_OF_SCOPE = {id_: row[1] for row in rows("Out of scope") for id_ in ID.findall(row[0])}


@pytest.fixture(scope="session")
def vectors(shared: Path) -> dict[str, Any]:
    return {item["id"]: item for item in json.loads((shared / "vectors" / "evaluators.json").read_text())}


def plain(value: Any) -> Any:
    """As JSON has it: tuples are lists, 1.0 is 1."""
    return json.loads(json.dumps(value))


def test_every_vector_has_its_place(vectors: dict[str, Any]) -> None:
    """Every vector stands in the page exactly once: equal, better here with the reason, or out of scope with the reason."""
    listed = [*EQUAL, *BETTER, *OUT_OF_SCOPE]
    assert sorted(listed) == sorted(vectors)
    assert all(row[4] for row in BETTER.values())
    assert all(OUT_OF_SCOPE.values())


@pytest.mark.parametrize("vector", EQUAL)
def test_equal(vectors: dict[str, Any], vector: str) -> None:
    """The same result as the reference's."""
    found = way(vectors[vector])
    assert found is not None
    ours, theirs = found
    assert ours(vectors[vector]) == theirs(vectors[vector])


@pytest.mark.parametrize("vector", BETTER)
def test_better(vectors: dict[str, Any], vector: str) -> None:
    """The result that the page says is better, and not the reference's, which the page tells too."""
    found = way(vectors[vector])
    assert found is not None
    ours, theirs = found
    _, _, there, here, _ = BETTER[vector]
    assert plain(ours(vectors[vector])) == json.loads(here.strip("`").replace("\\|", "|"))
    assert plain(theirs(vectors[vector])) == json.loads(there.strip("`").replace("\\|", "|"))
    assert there != here


@pytest.mark.parametrize("vector", OUT_OF_SCOPE)
def test_out_of_scope(vectors: dict[str, Any], vector: str) -> None:
    """What is out of scope is not run here, and no other vector is."""
    assert way(vectors[vector]) is None
