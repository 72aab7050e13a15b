"""Text of traces in a page: escaped, cut, nothing unseen, evidence marked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.server.pages.shown_text import INLINE_CHARACTERS, Mark, as_text, encodable, plain, shown
from tests.pages.served import Elements


@given(st.text(alphabet=st.characters(), max_size=60))
def test_whatever_is_written_is_text(text: str) -> None:
    """No text becomes an element other than our own labels, and every visible character comes back as it was."""
    html = str(plain(text))
    page = Elements(html)
    assert {tag for tag, _ in page.found} <= {"span"}
    html.encode()  # no half surrogate pair is left


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ('" onmouseover="x', "&#34; onmouseover=&#34;x"),
        ("a\u202eb", 'a<span class="unseen">U+202E</span>b'),
        ("\x00\x1b[31m", '<span class="unseen">U+0000</span><span class="unseen">U+001B</span>[31m'),
        ("\ud800", '<span class="unseen">U+D800</span>'),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\u05e9\u05dc\u05d5\u05dd \U0001f469\u200d\U0001f4bb", "\u05e9\u05dc\u05d5\u05dd \U0001f469\u200d\U0001f4bb"),
    ],
)
def test_hostile_text(text: str, html: str) -> None:
    """Markup is escaped, controls and direction marks are shown by their number, other scripts and joined emoji stay."""
    assert str(plain(text)) == html


def test_long_texts_are_cut() -> None:
    """A long text is shown by its beginning and says how much is left out; a little over the limit is shown whole."""
    found = shown("x" * 1_000_000)
    assert (len(found.html), found.length, found.cut) == (INLINE_CHARACTERS, 1_000_000, 1_000_000 - INLINE_CHARACTERS)
    assert shown("x" * (INLINE_CHARACTERS + 5)).cut == 0


def test_marks() -> None:
    """Marks may touch and overlap; each has its anchor once, and what fell short is shown where others lie as well."""
    marks = [Mark(2, 8, "a", "good"), Mark(4, 6, "b", "short"), Mark(100, 110, "far", "good")]
    html = str(shown("0<2345678", marks).html)
    assert html == (
        '0&lt;<a id="a"></a><mark class="good">23</mark><a id="b"></a><mark class="short">45</mark>'
        '<mark class="good">67</mark>8'
    )
    assert Elements(html).text == "0<2345678"


def test_marks_behind_the_cut() -> None:
    """A mark that reaches over the cut ends there; one that lies behind it is left out."""
    text = "y" * 20_000
    found = shown(text, [Mark(3_990, 4_100, "a"), Mark(9_000, 9_010, "b")])
    assert Elements(str(found.html)).all("a") == [{"id": "a"}]
    assert Elements(str(found.html)).text == "y" * INLINE_CHARACTERS


def test_values() -> None:
    """Short JSON stands on one line, long JSON is indented, line ends are of one kind, half pairs can be sent."""
    assert as_text({"a": "\u00e9"}) == '{"a": "\u00e9"}'
    assert as_text({"a": ["x" * 40, "y" * 40]}).count("\n") == 5
    assert as_text("a\r\nb") == "a\nb"
    assert encodable("\ud800x") == b"?x"
