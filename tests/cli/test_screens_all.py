"""What holds for the screens of every verb: none is missing, none is coloured where it should not be, each has help;
and the screens that are no fixed text."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from windlass.cli.help_text import fitted
from windlass.cli.main import main
from windlass.cli.reference import parser_of
from windlass.cli.terminal.text import cells
from windlass.cli.verbs import VERBS
from windlass.models.catalogue.names import default_catalogue

from . import (
    test_acp_verb,
    test_changed_files,
    test_copilot_verb,
    test_duet_verb,
    test_flow_verb,
    test_grants,
    test_handoff_verb,
    test_jobs_verb,
    test_labels,
    test_machine_verb,
    test_mcp_verb,
    test_policy_verb,
    test_replay,
    test_schedule_verb,
    test_screens_begin,
    test_screens_look,
    test_screens_move,
    test_screens_say,
    test_select_verb,
    test_serve_verb,
    test_signal_verb,
    test_skills_verb,
    test_worker_verb,
)
from .screens import PROVEN, proven, proves, settled, with_ids
from .terminal import PROGRAM, Terminal

ALSO_PROVEN_IN = (
    test_changed_files,
    test_acp_verb,
    test_copilot_verb,
    test_duet_verb,
    test_flow_verb,
    test_grants,
    test_handoff_verb,
    test_jobs_verb,
    test_labels,
    test_machine_verb,
    test_policy_verb,
    test_worker_verb,
    test_schedule_verb,
    test_select_verb,
    test_serve_verb,
    test_signal_verb,
    test_mcp_verb,
    test_skills_verb,
)
CASES = [
    *test_replay.SCREENS,
    *test_screens_begin.SCREENS,
    *test_screens_look.SCREENS,
    *test_screens_move.SCREENS,
    *test_screens_say.SCREENS,
]
CACHE = os.environ.get("WINDLASS_CACHE") or f"{sys.prefix}/windlass-cache"


def test_every_verb_has_a_normal_an_empty_and_an_error_screen():
    wanted = {(verb, kind) for verb in VERBS for kind in ("normal", "empty", "error")}
    found = proven(CASES) | PROVEN
    assert wanted - found == set(), "write a Case for these, or a test that @proves them"
    assert found - wanted == set()


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_help_of_each_verb_has_examples_of_it(verb: str, capsys: pytest.CaptureFixture[str]):
    assert main([verb, "--help"]) == 0
    said = capsys.readouterr().out
    assert "examples:" in said
    assert f"windlass {verb}" in said.partition("examples:")[2]


@pytest.mark.parametrize("verb", sorted(VERBS))
@pytest.mark.parametrize("width", [60, 80, 100])
def test_help_of_each_verb_fits_the_screen_and_loses_no_word(verb: str, width: int):
    said = parser_of(verb).epilog or ""
    shown = fitted(said, width)
    assert shown.split() == said.split()
    assert max(map(len, shown.splitlines())) <= width


def test_help_stands_on_the_screen_as_it_was_fitted(terminal: Terminal, bare: pathlib.Path):
    terminal.folder = bare
    assert terminal.shown("fork", "--help").endswith(
        """
examples:
  windlass fork march                a new session that continues from where
                                     march is now
  windlass fork march --at 40 --as march-retry      from after record 40, under
                                                    this id
  windlass fork march --deny p40 --as march-no      what if somebody had said
                                                    no?
  windlass fork march --reopen q52   ask again what was asked there; then
                                     'windlass answer'

The history is shared, not copied; march itself is not touched. What was open at
that point is closed in the fork. With --approve, --deny or --reopen the fork
begins where that was asked, and it is open there again, with whatever else was
asked at that point.
"""
    )


@pytest.mark.parametrize("columns", [40, 80, 100])
def test_long_ids_leave_room_for_what_a_session_waits_for(columns: int, made: pathlib.Path, tmp_path: pathlib.Path):
    folder = pathlib.Path(shutil.copytree(made, tmp_path / "work"))
    name = "01234567-89ab-7cde-8000-000000000000"
    subprocess.run([*PROGRAM, "fork", "march", "--at", "1", "--as", name], cwd=folder, check=True, capture_output=True)
    with Terminal(folder, columns=columns) as terminal:
        told = terminal.shown("ps", "--text", name[:4])
        asked = terminal.shown("ps", "--agent", "clerk")
    assert name in told.replace("\n", "")
    assert "the march one" in told
    assert with_ids("permission <permission of march> (pay)", folder) in asked.replace("\n    ", " ")


@pytest.mark.parametrize("words", ["ps", "logs march --all", "cost", "verify", "models"])
def test_tables_fit_a_screen_of_forty_columns(words: str, made: pathlib.Path, tmp_path: pathlib.Path):
    columns = 40
    folder = pathlib.Path(shutil.copytree(made, tmp_path / "work"))
    with Terminal(folder, columns=columns) as narrow:
        narrow.shown(*words.split())
        # What the terminal had to break itself is whole here, so that a line which was too wide shows.
        assert max(map(cells, narrow.joined().splitlines())) <= columns


def test_unknown_verb_is_named_with_the_nearest(terminal: Terminal, bare: pathlib.Path):
    terminal.folder = bare
    assert terminal.shown("cots", code=2).startswith("windlass: there is no verb 'cots': did you mean 'cost'?\nusage: ")
    assert terminal.shown().startswith("usage: windlass [-h] [--version] VERB ...\n\nA durable agent runtime.\n")


# --- screens that are no fixed text ---


@proves("verify", "error")
def test_damage_is_found_and_its_place_named(terminal: Terminal, place):
    import apsw

    folder = place("made")
    base = apsw.Connection(str(folder / "windlass.db"))
    changed = "cast(replace(cast(data as text), 'Pay I-7.', 'Pay I-8.') as blob)"
    base.execute(f"update appends set data = {changed}")
    base.close()
    terminal.folder = folder
    lines = terminal.shown("verify", code=1).splitlines()
    assert settled(lines[0]) == "ok       wired N records  HASH"
    (at,) = [number for number, line in enumerate(lines) if line.startswith("DAMAGED  done")]
    assert lines[at] == "DAMAGED  done     0 records"
    assert lines[at + 1].startswith("         chain at record 2: ")
    assert "\n".join(lines[-3:]).endswith(
        "3 of 6 sessions damaged: 'windlass logs' shows what stands before the damage,\n"
        "  and 'windlass fork SESSION --at SEQ' goes on from there"
    )
    assert "again continues from record 1 of done" in terminal.shown("fork", "done", "--at", "1", "--as", "again")


@proves("models", "normal", "empty")
@pytest.mark.parametrize(
    ("environ", "chosen", "ready", "told"),
    [
        ({"ANTHROPIC_API_KEY": "sk-secret"}, "anthropic/", "yes", ["ANTHROPIC_API_KEY is set", "not on this machine"]),
        ({}, "embedded/", "-", ["no key is in the environment", "run 'windlass models pull embedded'"]),
    ],
)
def test_models_marks_the_one_that_would_be_used(
    environ: dict[str, str], chosen: str, ready: str, told: list[str], terminal: Terminal, bare: pathlib.Path
):
    terminal.folder = bare
    text = terminal.shown("models", environ={"WINDLASS_CACHE": str(bare / "cache"), **environ})
    table, _, below = text.partition("\n\n")
    head, *rows = table.splitlines()
    assert head.split() == ["MODEL", "READY", "WINDOW", "$/M", "IN", "$/M", "OUT", "CAN"]
    assert len(rows) >= len(default_catalogue().models)
    assert max(map(len, rows)) <= 80
    (marked,) = [row.split() for row in rows if row.startswith("*")]
    assert marked[1].startswith(chosen)
    assert marked[2] == ready
    assert below.startswith("READY: its key is in the environment, or it is installed. CAN: t tools, ")
    flat = " ".join(below.split())
    assert all(word in flat for word in told)
    assert "sk-secret" not in text


@proves("chat", "normal")
def test_chat_begins_with_its_setup_talks_and_says_how_to_go_on(terminal: Terminal, place):
    """The conversation itself is in test_chat.py."""
    terminal.folder = place("bare")
    terminal.start("chat", "--agent", "agents.py:free", "--session", "s", "--no-history")
    terminal.wait_for("\n> ")
    terminal.line("Pay I-7.")
    terminal.wait_for("(completed; ")
    terminal.wait_for("\n> ", times=2)
    terminal.key("C-d")
    assert terminal.end() == 0
    assert re.sub(r"folder  [^·]*\n/help", "folder  HERE\n/help", settled(terminal.history())) == (
        "session s in windlass.db\n"
        "agent   free\n"
        "model   scripted\n"
        "tools   pay\n"
        "policy  your own tools and reading run, the rest is asked\n"
        "folder  HERE\n"
        "/help lists the commands · Ctrl-C stops a run · Ctrl-D leaves\n"
        "requests to you are marked abc: no model has seen these letters\n"
        "> Pay I-7.\n"
        "  I will pay it.\n"
        '→ pay(invoice="I-7", cents=1200)\n'
        "← paid I-7\n"
        "  Done: I-7 is paid.\n"
        "(completed; 20 in, 20 out, $0)\n"
        "session s is kept; resume it with\n  windlass chat --agent agents.py:free --session s\n"
    )


@proves("anchor", "normal")
def test_anchors_are_lines_of_json(terminal: Terminal, made: pathlib.Path):
    terminal.folder = made
    said = terminal.shown("anchor", "done").replace("\n", "")
    assert re.fullmatch(r'{"tenant":"default","session":"done","seq":\d+,"hash":"[\w-]{32}","at_ms":\d+}', said), said


@proves("demo", "normal")
def test_demo_tells_a_session_from_its_question_to_its_log(terminal: Terminal, tmp_path: pathlib.Path):
    terminal.folder = tmp_path
    shown = settled(terminal.shown("demo", "--city", "Oslo", environ={"WINDLASS_CACHE": CACHE}))
    shown = re.sub(r"demo-\d{8}-\d{6}-\d+", "demo-1", re.sub(r"\d\d:\d\d\b", "12:34", shown))
    shown = re.sub(r"[\d,]+ in( \([\d,]+ cached\))?, \d+ out", "N in, N out", shown)
    # What the model says is its own, and differs between machines and times of day.
    said = re.search(r"(?<=← 12:34\n).*?(?=\n\ncompleted)", shown, re.DOTALL)
    assert said is not None
    assert "12:34" in said[0]
    shown = shown.replace(said[0], "  (the answer)")
    assert shown == (
        "session demo-1 in windlass.db\n"
        "tools   add(x, y), clock(city)   model   SmolLM2 135M, in this process\n"
        "\n"
        "? What time is it in Oslo?\n"
        "embedded model: loading ...\n"
        "embedded model: ready after 0 s\n"
        '→ clock(city="Oslo")\n'
        "← 12:34\n"
        "  (the answer)\n"
        "\n"
        "completed after 2 turns and 0 s\n"
        "cost    $0, N in, N out (tokens)\n"
        "\n"
        "every step is in the log, sealed by a hash chain; look at it with\n"
        "  windlass logs demo-1\n"
        "  windlass verify demo-1\n"
        "  windlass inspect demo-1\n"
    )


@proves("sim", "normal")
def test_sim_says_what_the_world_was_like(terminal: Terminal, bare: pathlib.Path):
    terminal.folder = bare
    first, *rest = terminal.shown("sim", "1", "--mode", "safety").replace("\n  simulated", " simulated").splitlines()
    assert re.fullmatch(
        r"seed 1: no rule broken in \d+ steps, \d+ runs, \d+ crashes, \d+ appends, \d+ s of simulated time", first
    )
    assert rest
    assert all(re.fullmatch(r" +\d+ \w+", line) for line in rest)


@proves("completion", "normal")
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("windlass app", "windlass approve"),
        ("windlass verify --js", "windlass verify --json"),
        ("windlass show mar", "windlass show march"),
        ("windlass run --session mar", "windlass run --session march"),
        ("windlass diff march pol", "windlass diff march poll"),
    ],
)
def test_completion_completes_when_tab_is_pressed(typed: str, completed: str, terminal: Terminal, made: pathlib.Path):
    script = subprocess.run([*PROGRAM, "completion", "bash"], capture_output=True, text=True, check=True).stdout
    (made / "bashrc").write_text(f"PS1='$ '\nwindlass() {{ {' '.join(PROGRAM)} \"$@\"; }}\n{script}", encoding="utf-8")
    terminal.folder = made
    terminal.execute(["bash", "--noprofile", "--rcfile", "bashrc", "-i"])
    terminal.wait_for("$ ")
    terminal.type(typed)
    terminal.key("Tab")
    terminal.wait_for(f"$ {completed}")


def test_completion_for_fish_knows_every_verb(capsys: pytest.CaptureFixture[str]):
    assert main(["completion", "fish"]) == 0
    said = capsys.readouterr().out
    assert all(f"__fish_seen_subcommand_from {verb}'" in said for verb in VERBS)
    assert "__fish_seen_subcommand_from approve' -f -a '(windlass ps --ids" in said
    assert "__fish_seen_subcommand_from run' -l session -x -a '(windlass ps --ids" in said


def test_project_of_init_has_a_test_that_passes(terminal: Terminal, tmp_path: pathlib.Path):
    terminal.folder = tmp_path
    terminal.shown("init", "mine")
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=tmp_path / "mine", check=True)


# --- colours ---

ESCAPE = "\x1b"
PLAIN = [
    ["ps", "--json"],
    ["logs", "done", "--json"],
    ["show", "march", "--json"],
    ["verify", "--json"],
    ["cost", "--json"],
]
COLOURED = [["ps"], ["logs", "done"], ["show", "march"], ["verify"], ["doctor"], ["inspect", "done"]]


def test_colours_are_for_terminals_that_want_them_and_never_in_json(made: pathlib.Path):
    with Terminal(made, colour=True) as terminal:
        for words in COLOURED:
            terminal.start(*words)
            terminal.end()
            assert ESCAPE in terminal.screen(colour=True), words
        for words in PLAIN:
            terminal.shown(*words)
            assert ESCAPE not in terminal.screen(colour=True), words
        for environ in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            terminal.shown("logs", "done", environ=environ)
            assert ESCAPE not in terminal.screen(colour=True), environ


@pytest.mark.parametrize("words", COLOURED, ids=" ".join)
def test_no_colours_where_no_terminal_is(
    words: list[str], made: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(made)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    main(words)
    said = capsys.readouterr()
    assert said.out
    assert ESCAPE not in said.out + said.err
