"""Our linear-time search against Python's `re`, and against patterns that make `re` run away."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from monitor.rubrics.kinds.regex_search import LinearPattern
from monitor.rubrics.kinds.regex_syntax import PatternError

ATOMS = st.sampled_from(
    ["a", "b", "ab", ".", r"\d", r"\w", r"\s", r"\b", r"\B", "^", "$", "[ab]", "[^a]", "[a-c1]", r"[\d_]", r"\.", "é", r"\Z", "[^\\W]", "-"]
)  # fmt: skip


def _repeat(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeats = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "+?"])
    return st.builds(lambda body, repeat: f"(?:{body}){repeat}", inner, repeats)


PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("".join, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: f"({'|'.join(parts)})", st.lists(inner, min_size=2, max_size=3)),
        _repeat(inner),
    ),
    max_leaves=6,
)


@given(PATTERNS, st.text(alphabet="abcAé1_ .-\n", max_size=12), st.sampled_from(["", "(?i)", "(?m)", "(?s)", "(?ims)"]))
@settings(max_examples=600, deadline=None)
def test_agrees_with_re(pattern: str, text: str, flags: str) -> None:
    r"""For random patterns and texts the answer is that of Python's own engine (`\B` in an empty text changed with 3.14)."""
    assume(text or r"\B" not in pattern)
    assert LinearPattern(flags + pattern).found_in(text) == bool(re.search(flags + pattern, text))


@pytest.mark.parametrize("pattern", [r"^(a+)+$", r"^(a|a)*$", r"^(a|aa)+$", r"a*a*a*a*b", r"(?i).*x.*y.*z"])
def test_patterns_that_run_away_do_not(pattern: str) -> None:
    """Text written against a backtracking engine is searched in time that grows with its length only."""
    search = LinearPattern(pattern)
    started = time.process_time()
    assert not search.found_in("a" * 20_000 + "!")
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        (r"(a)\1", "back-reference"),
        (r"(?P<x>a)(?P=x)", "back-reference"),
        (r"a(?=b)", "look-ahead"),
        (r"(?<!a)b", "look-behind"),
        (r"(?>a)b", "atomic"),
        (r"(a", "ends too early"),
        (r"a)", "without its"),
        (r"*a", "repeat of nothing"),
        (r"[b-a]", "out of order"),
        (r"[ab", "ends too early"),
        (r"a{2000}", "over 1000"),
        (r"\q", "unknown escape"),
        (r"((a{100}){100}){100}", "too large"),
        ("(" * 200 + ")" * 200, "nested too deeply"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(pattern: str, what: str) -> None:
    """A construct outside the subset, and a broken pattern, is refused with a message that names it."""
    with pytest.raises(PatternError, match=what):
        LinearPattern(pattern)
