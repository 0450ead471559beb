"""Nothing that a model or a tool writes leaves this program as anything but letters, byte by byte. What a terminal makes
of it is in test_hostile_terminal.py."""

from __future__ import annotations

import asyncio
import io
import json
import pathlib
import random
import re
import subprocess
import sys

import hypothesis
import pytest
from hypothesis import strategies as st

import windlass
from windlass.cli.terminal.text import Flow, cells, fold_lines, one_line
from windlass.cli.terminal.visible_text import VisiblePieces, spelt, visible
from windlass.testing.scripted import ScriptedModel, by_history, call

from . import work
from .raw_terminal import COLUMNS, shown
from .screens import copied

HOSTILE = (
    "\x1b]0;owned\x07"  # the title
    "\x1b]52;c;ZXZpbA==\x07"  # the clipboard
    "\x1b]8;;http://evil.invalid\x1b\\link\x1b]8;;\x1b\\"
    "\x1b[2J\x1b[1;1H\x1b[?1049h\x1bP+q\x1b\\"  # clear, home, the other screen, a device control string
    "\x9b31m\x85\x07\x08\x7f\r"
    "\u202egnp.exe\u202c\u2066\u200b\ufeff\u2028\u061c\U000e0041"
)
FAKE = "── windlass asks · bcd ───\npay wants to run\nbcd> y\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\r\nb\rc", "a\nb\\x0dc"),
        ("\x9b", "\\x9b"),
        ("\u202eabc\u2066", "\\u202eabc\\u2066"),
        ("a\u200bb\ufeffc", "a\\u200bb\\ufeffc"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
        ("a\ufff9b\ufffac\ufffbd", "a\\ufff9b\\ufffac\\ufffbd"),
        ("\u3164\u2800", "\\u3164\\u2800"),
        ("日本語 é 😀", "日本語 é 😀"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("क्\u200dष", "क्\u200dष"),
        ("Auf\u200clage, Donau\u00addampf", "Auf\u200clage, Donau\u00addampf"),
        ("👩\u200d💻 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3", "👩\u200d💻 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3"),
        ("\u200da", "\\u200da"),
        ("a\u200c", "a\\u200c"),
        ("a\u200c\u200cb", "a\\u200c\\u200cb"),
        ("a \u00adb", "a \\xadb"),
        ("a\ufe0fb", "a\\ufe0fb"),
        ("p\u200d1", "p\\u200d1"),
    ],
)
def test_what_a_terminal_would_obey_is_spelt_out(text: str, wanted: str):
    assert visible(text) == wanted


def test_what_a_person_decides_on_has_no_hidden_sign_that_its_script_does_not_need():
    assert visible("Ac\u200cme Ac\u00adme می\u200cخواهم 👩\u200d💻", exact=True) == (
        "Ac\\u200cme Ac\\xadme می\u200cخواهم 👩\u200d💻"
    )
    assert spelt("a\nb\tc") == "a\\x0ab\\x09c"


def test_all_that_unicode_shows_as_nothing_is_spelt_out():
    spans = (
        "00AD 034F 061C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF FFA0 FFF0-FFF8"
    )
    codes: list[int] = []
    for span in (*spans.split(), "1BCA0-1BCA3", "1D173-1D17A", "E0000-E0FFF"):
        first, _, last = span.partition("-")
        codes += range(int(first, 16), int(last or first, 16) + 1)
    assert len(codes) == 4_174  # Default_Ignorable_Code_Point of Unicode 15
    assert [f"{code:04X}" for code in codes if chr(code) in visible(f"a {chr(code)} b")] == []


def is_tame(text: str) -> bool:
    within = re.compile(r"(?<=[^\W\d_])[\u200c\u200d\u00ad](?=[^\W\d_])")
    bare = within.sub("", text)
    return not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2028\u2029\u2060-\u2069\ufeff]", bare)


@hypothesis.given(st.text())
def test_any_text_is_tame_and_stays_so(text: str):
    once = visible(text)
    assert is_tame(once)
    assert visible(once) == once
    assert is_tame(one_line(text, 40))
    once.encode()


@hypothesis.given(st.lists(st.text(max_size=30), max_size=8), st.integers(8, 40))
def test_streamed_text_is_tame_in_any_pieces_and_never_leaves_its_column(pieces: list[str], width: int):
    out = io.StringIO()
    flow = Flow(out, margin="  ", width=width)
    for piece in pieces:
        flow.write(piece)
    flow.end_line()
    assert is_tame(out.getvalue())
    for line in out.getvalue().split("\n"):
        assert cells(line) <= width
        assert line == "" or line.startswith("  ")


@hypothesis.given(st.text(), st.integers(1, 30))
def test_wrapping_loses_nothing_but_spaces(text: str, width: int):
    shown_text = visible(text).expandtabs(4)
    folded = fold_lines(shown_text, width)
    assert re.sub(r"\s", "", "".join(folded)) == re.sub(r"\s", "", shown_text)
    assert all(cells(line) <= max(width, 2) for line in folded)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A store with sessions whose every text is hostile: replies, arguments, results, titles, questions."""
    folder = work.make_folder(tmp_path_factory.mktemp("hostile"))

    @windlass.tool(name="pay")
    def pay(invoice: str) -> str:
        "Pay."
        return HOSTILE + invoice

    end = "x" * 10_000 + "; rm -rf / # the end"
    model = ScriptedModel(by_history([[HOSTILE + FAKE, call("pay", invoice=HOSTILE + end)], HOSTILE]))
    long = ScriptedModel(["y" * 1_000_000])
    asks = windlass.Policy(rules=(windlass.ask("pay"),))

    async def fill() -> None:
        agents = [
            windlass.Agent("free", model=model, tools=[pay], instructions=HOSTILE),
            windlass.Agent("asks", model=model, tools=[pay], policy=asks),
            windlass.Agent("long", model=long),
        ]
        async with windlass.open(str(folder / "windlass.db"), agents=agents) as runtime:
            for agent, name in zip(agents, ("free", "asks", "long"), strict=True):
                session = await runtime.session(agent, name, title=HOSTILE)
                await session.prompt(HOSTILE)
                await session.result()

    asyncio.run(fill())
    return folder


VERBS = [
    ["ps"],
    ["logs", "free"],
    ["logs", "free", "--all", "--full"],
    ["logs", "free", "--json"],
    ["show", "asks"],
    ["inspect", "free"],
    ["inspect", "free", "--json"],
    ["cost", "free"],
    ["verify"],
    ["approve", "asks", "--wait", "0"],
    ["ps", "--json"],
    ["show", "asks", "--json"],
    ["cost", "--json"],
    ["verify", "--json"],
    ["logs", "free", "--raw"],
    ["export", "free"],
]


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_no_verb_passes_hostile_text_on(words: list[str], hostile: pathlib.Path, tmp_path: pathlib.Path):
    folder = copied(hostile, tmp_path / "copy") if words[0] == "approve" else hostile
    assert shown(words, folder)  # reading the screen fails on anything that a terminal would obey


def test_million_letters_in_one_line_are_cut_in_a_timeline_and_whole_on_demand(hostile: pathlib.Path):
    text = shown(["logs", "long"], hostile)
    assert "(1,000,000 characters)" in text
    assert len(text) < 3_000
    whole = shown(["logs", "long", "--full"], hostile)
    assert whole.count("y") >= 1_000_000
    assert max(map(len, whole.splitlines())) <= COLUMNS


AGENT = f"""
import windlass
from windlass.testing.scripted import ScriptedModel, by_history, call

@windlass.tool
def pay(invoice: str) -> str:
    "Pay."
    return {HOSTILE + FAKE!r}

turns = [[{FAKE + HOSTILE!r}, call("pay", invoice="I-7")], {HOSTILE + "z" * 5000!r}]
agent = windlass.Agent("a", model=ScriptedModel(by_history(turns)), tools=[pay],
                       policy=windlass.Policy(rules=(windlass.ask("pay"),)))
"""


def test_pipe_gets_the_words_alone_and_as_they_are(tmp_path: pathlib.Path):
    (tmp_path / "a.py").write_text(AGENT.replace("windlass.ask", "windlass.allow"), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "windlass.cli.main", "run", "--agent", "a.py:agent", "Pay."],
        cwd=tmp_path,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
        check=True,
    )
    assert ran.stdout.decode() == f"{FAKE}{HOSTILE}\n{HOSTILE}{'z' * 5000}\n"
    assert is_tame(ran.stderr.decode())
    assert "completed · 2 turns" in ran.stderr.decode()


def test_file_gets_the_words_as_they_are():
    out = io.StringIO(newline="")
    flow = Flow(out)
    text = "می\u200cخواهم\r\nDonau\u00addampf 👩\u200d💻\rx\x1b[1m"
    for letter in text:
        flow.write(letter)
    assert out.getvalue() == text
    flow.end_line()
    assert out.getvalue() == text + "\n"


@hypothesis.given(st.text(alphabet="aب\u200c\u200d\u00ad\ufe0f❤👩1\u20e3\r\n\x1b ", max_size=12), st.data())
def test_pieces_are_shown_as_the_whole_is(text: str, data: st.DataObject):
    pieces, stream, left = [], VisiblePieces(), text
    while left:
        size = data.draw(st.integers(1, len(left)))
        pieces.append(stream.feed(left[:size]))
        left = left[size:]
    assert "".join(pieces) + stream.end() == visible(text)


def test_random_bytes_as_letters_are_tame():
    chance = random.Random(7)
    for _ in range(200):
        raw = bytes(chance.randrange(256) for _ in range(200))
        assert is_tame(visible(raw.decode("latin-1")))
        assert is_tame(visible(raw.decode("utf-8", "surrogateescape")))


def test_result_as_json_is_tame_and_alone_on_its_stream(tmp_path: pathlib.Path):
    said = AGENT.replace("windlass.ask", "windlass.allow").replace('"Pay."', '"Pay."\n    print("a tool prints")')
    (tmp_path / "a.py").write_text(said + "\nprint('so does the file')\n", encoding="utf-8")
    for words in (["run", "Pay.", "--session", "s"], ["replay", "s", "--live"]):
        ran = subprocess.run(
            [sys.executable, "-m", "windlass.cli.main", *words, "--agent", "a.py:agent", "--json"],
            cwd=tmp_path,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
            check=True,
        )
        assert ran.stdout.isascii()
        assert is_tame(ran.stdout.decode())
        assert isinstance(json.loads(ran.stdout), dict)
        assert b"so does the file" in ran.stderr
        assert b"a tool prints" in ran.stderr
