"""Which new invocation continues which stored one, what changed, what was merged."""

from __future__ import annotations

from dataclasses import replace

from monitor.intake.revisions import digest, first, revise
from monitor.model.invocation import Assembled, Completeness, Invocation, SettledBy, ToolCall
from monitor.model.run import StoredInvocation


def invocation(span: str, started_at: int = 0, answer: str = "yes") -> Invocation:
    return Invocation(
        f"t-{span}",
        "t",
        span,
        started_at,
        started_at + 5,
        Completeness(SettledBy.ROOT_ENDED),
        "gen_ai",
        final_response=answer,
    )


def assembled(span: str, members: str, started_at: int = 0, answer: str = "yes") -> Assembled:
    return Assembled(invocation(span, started_at, answer), frozenset(members))


def stored(span: str, members: str, started_at: int = 0, revision: int = 1, judged: bool = False) -> StoredInvocation:
    kept = replace(invocation(span, started_at), revision=revision)
    return StoredInvocation(kept, frozenset(members), digest(kept), judged)


def test_what_is_new_is_revision_one() -> None:
    """All invocations of a first settlement are stored as they are."""
    changes = first([assembled("a", "ab"), assembled("c", "c")]).changes
    assert [(c.invocation.id, c.invocation.revision, c.rejudge) for c in changes] == [
        ("t-a", 1, False),
        ("t-c", 1, False),
    ]
    assert changes[0].span_ids == frozenset("ab")


def test_an_unchanged_invocation_is_no_change() -> None:
    """The same meaning, with more member spans: nothing to store."""
    assert revise([stored("a", "ab")], [assembled("a", "abc")]).changes == ()


def test_a_changed_invocation_is_the_next_revision() -> None:
    """Changed: revision + 1, to be judged again where the store finds it judged, whatever was known when it was read."""
    for judged in (False, True):
        [one] = revise([stored("a", "ab", revision=4, judged=judged)], [assembled("a", "ab", answer="no")]).changes
        assert (one.invocation.revision, one.rejudge) == (5, True)


def test_a_moved_root_keeps_the_old_id() -> None:
    """An invocation with another root that shares the most spans goes on under the stored id."""
    revision = revise([stored("a", "abc"), stored("x", "xy", 9)], [assembled("r", "rabc"), assembled("x", "xy", 9)])
    [change] = revision.changes
    assert (change.invocation.id, change.invocation.span_id, change.invocation.revision) == ("t-a", "r", 2)
    assert revision.merged == {}


def test_a_merge_marks_the_later_one() -> None:
    """Two stored invocations that turn out to be one: the earlier keeps its id, the later is merged into it, whoever has the root."""
    revision = revise([stored("b", "bc", 20), stored("a", "a", 10)], [assembled("b", "abc", 10, "both")])
    [change] = revision.changes
    assert (change.invocation.id, change.invocation.revision) == ("t-a", 2)
    assert revision.merged == {"t-b": "t-a"}


def test_a_split_keeps_the_id_with_the_larger_part() -> None:
    """A stored invocation that turns out to be two goes on as the part with which it shares most; the other is new."""
    revision = revise([stored("p", "abcd")], [assembled("a", "ab"), assembled("r", "bcd", 3)])
    assert [(c.invocation.id, c.invocation.revision) for c in revision.changes] == [("t-a", 1), ("t-p", 2)]


def test_the_same_id_wins_over_a_larger_share() -> None:
    """An invocation whose id is assembled again is that one, however few spans it shares."""
    revision = revise([stored("a", "abc")], [assembled("a", "a", answer="x"), assembled("b", "bc")])
    assert [(c.invocation.id, c.invocation.revision) for c in revision.changes] == [("t-a", 2), ("t-b", 1)]


def test_the_digest_is_of_the_meaning() -> None:
    """Revision, settled_by and the number of late spans are no part of it; everything else is."""
    one = invocation("a")
    same = replace(one, revision=7, completeness=Completeness(SettledBy.IDLE, late_spans=3))
    assert digest(one) == digest(same)
    assert len(digest(one)) == 64
    others = [
        replace(one, final_response="no"),
        replace(one, tool_calls=(ToolCall("t"),)),
        replace(one, completeness=Completeness(SettledBy.ROOT_ENDED, missing=("tool_definitions",))),
        replace(one, inclusion_probability=0.5),
    ]
    assert len({digest(other) for other in (one, *others)}) == 5


def test_a_digest_takes_whatever_an_attribute_holds() -> None:
    """Bytes, infinities and half surrogates have a digest."""
    odd = replace(invocation("a"), attributes={"b": b"\xff", "f": float("inf"), "s": "\ud83c", "n": {"m": [b"x"]}})
    assert digest(odd) != digest(invocation("a"))
