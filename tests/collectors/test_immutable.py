"""Values that only the type checker freezes are values none the less."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

from collectors.span import Scope
from monitor.model.run import JournalPosition


def test_equal_fields_make_equal_values() -> None:
    """They compare, hash, copy and pickle by their fields, as frozen dataclasses do."""
    one, same, other = JournalPosition(1, 2), JournalPosition(1, 2), JournalPosition(1, 3)
    assert one == same != other
    assert {one: "here"}[same] == "here"
    assert replace(one, offset=3) == other
    scope = Scope("name", attributes={"a": 1})
    assert pickle.loads(pickle.dumps(scope)) == copy.deepcopy(scope) == scope


def test_they_have_slots() -> None:
    """A name that is no field cannot be set by mistake, and there is no dictionary beside each of a million objects."""
    assert not hasattr(JournalPosition(1, 2), "__dict__")
