"""Searching patterns in texts that agents wrote: like Python's `re` where both have the construct, and never running away."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.rubrics.kinds.regex_search import LinearPattern, PatternError

ATOMS = st.sampled_from(["a", "b", "ab", ".", r"[0-9]", r"\.", "^", "[ab]", "[^a]", "[a-c1]", "é", "-", "日"])


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


@given(PATTERNS, st.text(alphabet="abcAé1日 .-\n", max_size=12), st.sampled_from(["", "(?i)", "(?m)", "(?s)"]))
@settings(max_examples=300, deadline=None)
def test_agrees_with_re(pattern: str, text: str, flags: str) -> None:
    """For random patterns of the common syntax the answer is that of Python's own engine."""
    assert LinearPattern(flags + pattern).found_in(text) == bool(re.search(flags + pattern, text))


@pytest.mark.parametrize("pattern", [r"^(a+)+$", r"^(a|a)*$", r"^(a|aa)+$", r"a*a*a*a*b", r"(?i).*x.*y.*z"])
def test_patterns_that_run_away_do_not(pattern: str) -> None:
    """Text written against a backtracking engine is searched at once; `re` would not come back from some of these."""
    search = LinearPattern(pattern)
    started = time.process_time()
    assert not search.found_in("a" * 20_000 + "!")
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    "pattern",
    [r"(a)\1", r"a(?=b)", r"(?<!a)b", "(a", "a)", "*a", "[b-a]", "[ab", "a{2000}", r"\q", "((a{100}){100}){100}"],
)
def test_what_cannot_be_used_is_refused(pattern: str) -> None:
    """A construct that RE2 does not have, and a broken or huge pattern, is refused with a message that says which syntax is meant."""
    with pytest.raises(PatternError, match="RE2"):
        LinearPattern(pattern)
