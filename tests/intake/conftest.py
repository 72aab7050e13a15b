"""Fixtures of the intake tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.intake.desk import Desk


@pytest.fixture
def open_desk(tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    """Makes desks and closes their journals at the end."""
    opened: list[Desk] = []

    def start(**given: object) -> Desk:
        opened.append(Desk(tmp_path / f"journal{len(opened)}", **given))  # type: ignore[arg-type]
        return opened[-1]

    yield start
    for desk in opened:
        desk.journal.close()


@pytest.fixture
def desk(open_desk: Callable[..., Desk]) -> Desk:
    """A desk with the default rules and one monitor."""
    return open_desk()
