"""Every verb on a real terminal: what it shows where there is something, where there is nothing, and where it is wrong."""

from __future__ import annotations

import pathlib
import re
import shutil

import pytest

from windlass.cli.main import VERBS
from windlass.cli.options import WAIT_S

from . import work
from .screen import Screen, shown

QUICK = ["--wait", "0"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return work.make(tmp_path_factory.mktemp("work"))


@pytest.fixture
def folder(made: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of the folder, to be changed."""
    return pathlib.Path(shutil.copytree(made, tmp_path / "work"))


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder whose store holds nothing."""
    folder = tmp_path_factory.mktemp("empty")
    import asyncio

    from windlass.store import open_store

    async def touch() -> None:
        await (await open_store(folder / "windlass.db")).close()

    asyncio.run(touch())
    return folder


def settled(text: str) -> str:
    """A screen without what differs from run to run."""
    text = re.sub(r"\d\d:\d\d:\d\d", "12:00:00", text)
    text = re.sub(r"\d{4}-\d\d-\d\d", "2026-01-01", text)
    text = re.sub(r"\b\d+ (ms|s|min)\b", "0 s", text)
    text = re.sub(r"\b[0-9a-f]{24}\b", "DIGEST", text)
    text = re.sub(r"runner-[0-9a-f-]+", "RUNNER", text)
    return re.sub(r"(records?  )[\w-]{16}", r"\1HASH", text)


def test_ps(made: pathlib.Path):
    rows = [re.split(r"  +", line) for line in settled(shown(["ps"], made)).splitlines()]
    assert rows[0] == ["SESSION", "STATE", "AGENT", "AGE", "COST", "WAITING FOR"]
    assert sorted(rows[1:]) == [
        ["done", "idle", "free", "0 s", "$0", "the done one"],
        ["march", "asked", "clerk", "0 s", "$0", "permission p8 (pay)"],
        ["poll", "asked", "poll", "0 s", "$0", "question q9 (ask_user)"],
        ["wired", "asked", "banker", "0 s", "$0", "settle c6.0 (wire)"],
    ]


def test_logs(made: pathlib.Path):
    assert settled(shown(["logs", "done"], made)) == (
        "    1  12:00:00  session started     “the done one”; agent free, model scripted,\n"
        "                                     tools: pay\n"
        "    2  12:00:00  prompt              Pay I-7.\n"
        "    3  12:00:00  run started         r3 (prompt)\n"
        "    6  12:00:00  model replied       I will pay it.\n"
        '                                     → pay(invoice="I-7", cents=1200)\n'
        "                                     (10 in, 10 out, 0 s)\n"
        "   10  12:00:00  tool finished       pay [c6.0]: paid I-7\n"
        "   14  12:00:00  model replied       Done: I-7 is paid.\n"
        "                                     (10 in, 10 out, 0 s)\n"
        "   16  12:00:00  run completed       completed; 2 turns, 20 in, 20 out, $0\n"
    )


def test_show_says_what_is_asked_and_how_to_answer(made: pathlib.Path):
    text = settled(shown(["show", "march"], made))
    assert "state    asked\n" in text
    assert text.endswith(
        "pay wants to run (request p8)\n"
        "│ {\n"
        '│   "invoice": "I-7",\n'
        '│   "cents": 1200\n'
        "│ }\n"
        "what an approval is bound to: DIGEST\n"
        "  windlass approve march p8\n"
        "  windlass deny march p8 --feedback '...'\n"
    )
    assert "a question (q9)\n│ Which one?\n│   1) red\n│   2) blue\n  windlass answer poll q9 '...'\n" in shown(
        ["show", "poll"], made
    )
    assert "windlass settle wired c6.0" in shown(["show", "wired"], made)


def test_inspect_shows_what_the_model_sees_there(made: pathlib.Path):
    end = shown(["inspect", "done"], made)
    assert '[6] assistant\n│ I will pay it.\n│ → pay(invoice="I-7", cents=1200)\n' in end
    assert "[10:c6.0] result of pay\n│ paid I-7\n" in end
    at = shown(["inspect", "done", "--at", "7"], made)
    assert "error of pay\n│ [this call has no result yet]" in at
    assert "Done" not in at
    assert "the history is empty" in shown(["inspect", "done", "--at", "1"], made)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cost"], "sum"),
        (["cost", "done"], "scripted  2         20            0              20             $0"),
        (["verify"], "ok       done  16 records"),
        (["queue", "done"], "no prompt waits"),
        (["doctor"], "windlass.db: 4 sessions"),
        (["prune", "--older-than", "0s"], "a dry run: nothing was changed; --yes removes 1 session"),
    ],
)
def test_other_verbs_that_only_look(words: list[str], said: str, made: pathlib.Path):
    code = 1 if words == ["doctor"] else 0  # without a key and the embedded model there is none to use
    with Screen(words, made) as screen:
        assert screen.end() in (0, code)
        assert said in screen.text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["approve", "march"], "approved p8: pay may run"),
        (["deny", "march", "--feedback", "no"], "denied p8: pay does not run, the model is told so"),
        (["answer", "poll", "2"], "answered q9"),
        (["settle", "wired", "c6.0", "did_not_happen"], "settled c6.0: did not happen"),
        (["cancel", "march"], "cancel: the run is closed for good"),
        (["wake", "done"], "wake: what is owed is done now"),
        (["rewind", "done", "--to", "10"], "rewind to 10"),
    ],
)
def test_commands_are_kept_and_say_what_happens_next(words: list[str], said: str, folder: pathlib.Path):
    text = shown([*words, *QUICK], folder)
    assert said in text
    assert "kept in the inbox; nobody drives this session now" in text
    assert "inbox    1 command that nobody has taken yet" in shown(["show", words[1]], folder)


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        (["ps"], "no session yet: 'windlass run'"),
        (["cost"], "no session in windlass.db yet"),
        (["verify"], "no session in windlass.db yet"),
        (["prune", "--older-than", "1d"], "no session at rest is older than 1d"),
        (["ps", "--waiting"], "no session in windlass.db fits"),
    ],
)
def test_empty_store(verb: list[str], said: str, empty: pathlib.Path):
    assert shown(verb, empty) == said + "\n"


NEEDS_SESSION = ["logs", "show", "inspect", "approve", "deny", "answer", "interrupt", "cancel", "wake", "queue", "fork"]


@pytest.mark.parametrize("verb", [*NEEDS_SESSION, "export"])
def test_unknown_session_is_named_with_the_fix(verb: str, empty: pathlib.Path):
    said = shown([verb, "nobody"], empty, code=2)
    assert said == "windlass: no session 'nobody' in 'windlass.db': 'windlass ps' lists them\n"


@pytest.mark.parametrize("verb", ["ps", "cost", "verify"])
def test_missing_store_is_named_with_the_fix(verb: str, tmp_path: pathlib.Path):
    assert shown([verb, "--store", "gone.db"], tmp_path, code=2, columns=200) == (
        "windlass: there is no store at 'gone.db': name one with --store or WINDLASS_STORE, "
        "or begin one with 'windlass run' or 'windlass demo'\n"
    )
    assert not (tmp_path / "gone.db").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["approve", "done"], "session 'done' waits for no permission"),
        (["approve", "march", "p9"], "no open permission 'p9' in session 'march': open are p8 (pay)"),
        (["answer", "poll"], "no answer to q9 was given"),
        (["answer", "poll", "7"], "'7': the options are numbered 1 to 2"),
        (["settle", "wired", "c9.9", "happened"], "no call 'c9.9' with an unknown outcome: open are c6.0"),
        (["inspect", "done", "--at", "99"], "session 'done' ends at record 16: --at 99 is behind its end"),
        (["fork", "done", "--at", "99"], "--at 99: session 'done' has the records 1 to 16"),
        (["rewind", "done", "--to", "99"], "--to 99: session 'done' has the records 1 to 16"),
        (["queue", "done", "--drop", "i2"], "no prompt 'i2' waits: waiting are none"),
        (["prune", "--older-than", "soon"], "--older-than 'soon': write a number and one of"),
        (["import", "gone.jsonl"], "cannot read 'gone.jsonl': No such file or directory"),
        (["run", "--agent", "agents.py:nobody", "Hi"], "agents.py has no agent 'nobody': there are agents.py:free"),
        (["run", "--agent", "gone.py:x", "Hi"], "there is no file 'gone.py'"),
        (["run", "--tool", "shout", "Hi"], "there is no built-in tool 'shout'"),
        (["run", "--policy", "lax", "Hi"], "no policy 'lax': write standard, allow-all, read-only or FILE.py:NAME"),
        (["run", "--model", "gpt-99", "Hi"], "no model 'gpt-99'"),
        (["demo", "--city", "Atlantis"], "the demo's clock does not know 'Atlantis'"),
    ],
)
def test_what_is_wrong_is_said_with_the_fix(words: list[str], said: str, folder: pathlib.Path):
    assert said in shown(words, folder, code=2, columns=200)


def test_fork_export_import_and_prune_change_what_they_say(folder: pathlib.Path):
    assert shown(["fork", "done", "--at", "10", "--as", "again"], folder).startswith(
        "again goes on from record 9 of done\n"  # 10 lies inside of an append; 9 is the end of the one before
    )
    assert shown(["export", "done", "done.jsonl"], folder).startswith("exported done: ")
    assert shown(["import", "done.jsonl", "--store", "other.db", "--as", "copy"], folder) == (
        "imported copy: 16 records, verified\n"
    )
    assert "ok       copy  16 records" in shown(["verify", "copy", "--store", "other.db"], folder)
    text = shown(["prune", "--older-than", "0s", "--yes", "--agent", "free"], folder)
    assert "keep    done  forks refer to it: again" in text


def test_damage_is_found_and_its_place_named(folder: pathlib.Path):
    import apsw

    base = apsw.Connection(str(folder / "windlass.db"))
    changed = "cast(replace(cast(data as text), 'Pay I-7.', 'Pay I-8.') as blob)"
    base.execute(f"update appends set data = {changed}")
    base.close()
    text = shown(["verify", "done"], folder, code=1)
    assert "DAMAGED  done" in text
    assert "chain at record 2" in text


def test_colours_are_for_terminals_only(made: pathlib.Path):
    with Screen(["logs", "done"], made, colour=True) as screen:
        screen.end()
        assert "\x1b[1m" in screen.raw
        assert screen.text
    assert "\x1b" not in shown(["logs", "done"], made)


def test_narrow_screen_is_kept_to(made: pathlib.Path):
    with Screen(["show", "march"], made, columns=40) as screen:
        screen.end()
        assert "pay wants to run" in screen.text


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_help_of_each_verb_has_examples(verb: str, tmp_path: pathlib.Path):
    text = shown([verb, "--help"], tmp_path, columns=120)
    assert "examples:" in text
    assert f"windlass {verb}" in text


def test_a_command_is_watched_for_a_moment():
    assert 0 < WAIT_S <= 5


def test_init_writes_a_project_whose_test_passes_and_never_over_a_file(tmp_path: pathlib.Path):
    import subprocess
    import sys

    said = shown(["init", "mine"], tmp_path)
    assert said.splitlines() == [
        "wrote mine/agent.py",
        "wrote mine/test_agent.py",
        "wrote mine/README.md",
        "next: windlass chat --agent mine/agent.py:agent",
    ]
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=tmp_path / "mine", check=True)
    assert shown(["init", "mine"], tmp_path, code=2) == (
        "windlass: 'mine/agent.py' is there already: name a folder without it\n"
    )


def test_completion_knows_every_verb_and_its_options(tmp_path: pathlib.Path):
    import subprocess

    script = shown(["completion", "bash"], tmp_path, columns=200)
    ask = "COMP_WORDS=(windlass {0}); COMP_CWORD={1}; _windlass; echo ${{COMPREPLY[@]}}"

    def completed(words: str, place: int) -> str:
        told = subprocess.run(
            ["bash", "-c", f"{script}\n{ask.format(words, place)}"], capture_output=True, text=True, check=True
        )
        return told.stdout.strip()

    assert completed("app", 1) == "approve"
    assert completed("logs --f", 2) == "--follow --full"
    assert "__fish_seen_subcommand_from approve" in shown(["completion", "fish"], tmp_path, columns=200)
    assert shown(["completion", "tcsh"], tmp_path, code=2)
