"""Pages become the text that a reader would see, whatever they are made of."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.tools.web.html_text import html_text
from windlass.tools.web.html_tokens import tokens

PAGE = """<!doctype html><html><head><title> A  page </title><style>p{}</style><script>steal()</script></head><body>
<h1>Top <b>bold</b></h1><p>Text, <a href="/x?y=1">a link</a>. <a href="javascript:alert(1)">odd</a><p>second
<ul><li>one<li>two<ol start=3><li>in</li><li>in2</li></ol></li></ul>
<table><tr><th>a<th>b<tr><td>1<td>2</table><pre>  code
   x</pre><blockquote>said</blockquote>caf&eacute;<br>line<img src=x alt="cat"><!-- unseen --></body></html>"""
TEXT = """Title: A page

# Top bold

Text, a link <https://e.example/x?y=1>. odd

second

- one
- two
  3. in
  4. in2

a | b
1 | 2

```
  code
   x
```

> said

café
line [image: cat]"""


def test_a_page_reads_as_its_reader_sees_it() -> None:
    assert html_text(PAGE, "https://e.example/d/") == TEXT


@pytest.mark.parametrize(
    "hidden",
    [
        "<p hidden>CANARY</p>", "<div style='display: none'>a <p>CANARY</div>", "<span aria-hidden=true>CANARY</span>",
        "<p style='font-size:0px'>CANARY</p>", "<p style='opacity:0'>CANARY</p>", "<template>CANARY</template>",
        "<p style='position:absolute;left:-9999px'>CANARY</p>", "<!-- CANARY -->", "<script>CANARY</script>",
        "<style>CANARY</style>", "<noscript>CANARY</noscript>", "<svg><text>CANARY</text></svg>", "<?php CANARY ?>",
        "<iframe>CANARY</iframe>", "<![CDATA[CANARY", "<a title='CANARY'></a>", "<meta content='CANARY'>",
        "<div>" * 400 + "<script>CANARY</script>" + "</div>" * 400, "<p style='visibility:hidden'>CANARY",
    ],
)  # fmt: skip
def test_what_a_reader_does_not_see_is_left_out(hidden: str) -> None:
    assert "CANARY" not in html_text(f"<p>seen</p>{hidden}")


def test_hidden_parts_and_invisible_characters_are_counted() -> None:
    text = html_text("<p hidden>no</p><p>y\u200bes\U000e0041</p>")
    assert text == (
        "yes\n\n[1 parts that a reader of the page does not see were left out]\n[2 invisible characters were left out]"
    )


def test_unclosed_elements_hide_no_more_than_themselves() -> None:
    assert html_text("<head><title>t</title><p>shown") == "Title: t\n\nshown"
    assert html_text("<ul><li hidden>a<li>b</ul>c").startswith("- b\n\nc")


BOMBS = {
    "brackets": "<", "elements": "<div>", "comments": "<!--", "beginnings": "<a ", "ends": "</a", "marks": "&",
    "declarations": "<!a", "data": "<![CDATA[", "instructions": "<?", "quotes": "<a x='", "paragraphs": "<p>x",
    "links": "<a href=x>x", "items": "<li>", "lists": "<ul><li>", "breaks": "<br>", "attributes": " x", "numbers": "&#",
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_the_time_for_a_page_grows_as_the_page_does(name: str) -> None:
    """Once as large takes about so much longer: what grows with the square would take minutes here."""
    before = "<a " if name == "attributes" else ""
    begun = time.process_time()
    html_text(before + BOMBS[name] * (200_000 // len(BOMBS[name])))
    assert time.process_time() - begun < 5


def test_a_number_beyond_all_numbers_is_text() -> None:
    assert "9999" in html_text("&#" + "9" * 5_000 + ";")


@settings(max_examples=200)
@given(st.text(alphabet="<>/!-'\"=& abph1;\n", max_size=300))
def test_no_page_fails(source: str) -> None:
    html_text(source)
    assert all(token.kind in ("text", "start", "end") for token in tokens(source))


def test_text_is_bounded() -> None:
    text = html_text("<p>" + "word " * 10_000, limit=1_000)
    assert len(text) < 1_100
    assert text.endswith("[the page goes on; its text is cut here]")
