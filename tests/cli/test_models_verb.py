"""The console script and its first verb, as a person or a program uses them."""

from __future__ import annotations

import hashlib
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from windlass.cli import verbs
from windlass.cli.exits import FAILED, INTERRUPTED, OK, USAGE
from windlass.cli.main import main
from windlass.cli.verbs import GROUPS, VERBS
from windlass.events.errors import UsageError
from windlass.models.catalogue.data import PRICES_AS_OF
from windlass.models.embedded import pull as pulling


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """No keys, no Ollama, an empty cache."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL")) or name == "WINDLASS_MODEL":
            monkeypatch.delenv(name)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    monkeypatch.setenv("WINDLASS_CACHE", str(tmp_path))


Capture = pytest.CaptureFixture[str]


def test_list_marks_what_would_be_used_and_says_why(capsys: Capture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert main(["models"]) == OK
    out = capsys.readouterr().out
    (marked,) = [line for line in out.splitlines() if line.startswith("*") and ":" not in line]
    assert marked.split()[:6] == ["*", "openai/gpt-5-mini", "yes", "272k", "0.25", "2"]
    assert "* openai/gpt-5-mini: OPENAI_API_KEY is set" in out
    assert "sk-secret" not in out


def test_list_without_keys_names_the_way_to_the_embedded_model(capsys: Capture):
    assert main(["models"]) == OK
    out = capsys.readouterr().out
    assert "* embedded/smollm2-135m: no key is in the environment and no local Ollama answers" in out
    assert "run 'windlass models pull embedded'" in out


def test_one_name_is_told_alone_with_the_key_that_it_needs(capsys: Capture):
    assert main(["models", "--model", "sonnet"]) == OK
    head, found, blank, *rest = capsys.readouterr().out.splitlines()
    assert head.split() == ["MODEL", "READY", "WINDOW", "$/M", "IN", "$/M", "OUT", "CAN"]
    assert found.split()[:3] == ["*", "anthropic/claude-sonnet-5-5", "-"]
    assert found.endswith("tidoT")
    assert blank == ""
    assert rest == [
        "READY: its key is in the environment, or it is installed. CAN: t tools, i images, d documents, o output, "
        "T thinking",
        f"$/M: dollars for a million tokens, base rates of {PRICES_AS_OF}",
        "* anthropic/claude-sonnet-5-5: named explicitly",
        "  it has no key yet: set ANTHROPIC_API_KEY",
    ]
    assert main(["models", "--model", "sonnet", "--json"]) == OK
    assert [row["name"] for row in msgspec.json.decode(capsys.readouterr().out)] == ["anthropic/claude-sonnet-5-5"]


def test_list_as_json(capsys: Capture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GEMINI_API_KEY", "x")
    assert main(["models", "--json"]) == OK
    rows: list[dict[str, Any]] = msgspec.json.decode(capsys.readouterr().out)
    (chosen,) = [row for row in rows if row["chosen"]]
    assert chosen == {
        "name": "gemini/gemini-3.8-flash",
        "provider": "gemini",
        "model": "gemini-3.8-flash",
        "chosen": True,
        "why": "GEMINI_API_KEY is set",
        "usable": True,
        "window_tokens": 1_048_576,
        "max_output_tokens": 65_536,
        "price": {"input": 750_000, "output": 3_750_000, "cache_read": 75_000, "as_of": "2026-11-15"},
        "abilities": ["tools", "images", "documents", "output", "thinking"],
    }
    assert {row["usable"] for row in rows if row["provider"] == "anthropic"} == {False}


def test_list_shows_a_name_that_is_passed_on(capsys: Capture):
    assert main(["models", "--model", "openrouter/some/new-model"]) == OK
    out = capsys.readouterr().out
    assert "* openrouter/some/new-model: named explicitly" in out
    (marked,) = [line for line in out.splitlines() if line.startswith("*") and ":" not in line]
    assert marked.split()[:6] == ["*", "openrouter/some/new-model", "-", "128k", "?", "?"]


def test_name_that_means_nothing_is_wrong_usage(capsys: Capture):
    assert main(["models", "--model", "sonet"]) == USAGE
    captured = capsys.readouterr()
    assert captured.err.startswith("windlass: no model 'sonet' (did you mean 'sonnet'")
    assert captured.out == ""


@pytest.fixture
def pulled(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> pathlib.Path:
    """A model that is already in the cache, so that pulling it needs nothing."""
    path = tmp_path / "models" / "small.gguf"
    path.parent.mkdir()
    path.write_bytes(b"small")
    small = msgspec.structs.replace(
        pulling.SMOLLM2, file_name=path.name, file_sha256=hashlib.sha256(b"small").hexdigest()
    )
    monkeypatch.setattr(pulling.pull, "__defaults__", (small,))
    return path


def test_pull_prints_the_path_on_stdout_and_progress_on_stderr(capsys: Capture, pulled: pathlib.Path):
    assert main(["models", "pull", "embedded"]) == OK
    captured = capsys.readouterr()
    assert captured.out == f"{pulled}\n"
    assert captured.err == f"already there: {pulled}\n"


def test_pull_that_fails_is_one_line_and_exit_code_1(capsys: Capture, monkeypatch: pytest.MonkeyPatch):
    def fails(**_: object) -> None:
        raise pulling.PullFailed("pip could not fetch it")

    monkeypatch.setattr(pulling, "pull", fails)
    assert main(["models", "pull", "embedded", "--index-url", "http://127.0.0.1:1/simple"]) == FAILED
    assert capsys.readouterr().err == "windlass: pip could not fetch it\n"


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        ([], OK),
        (["--help"], OK),
        (["--version"], OK),
        (["models", "--help"], OK),
        (["models", "pull", "--help"], OK),
        (["model"], USAGE),
        (["models", "pull"], USAGE),
        (["models", "pull", "llama"], USAGE),
        (["--nonsense"], USAGE),
    ],
)
def test_exit_codes(argv: list[str], code: int, capsys: Capture):
    assert main(argv) == code
    captured = capsys.readouterr()
    assert bool(captured.err) == (code == USAGE)


def test_help_shows_examples_and_exit_codes(capsys: Capture):
    main(["--help"])
    out = capsys.readouterr().out
    assert "windlass models pull embedded" in out
    assert "exit codes: 0 done, 1 it failed, 2 wrong usage, 3 waits" in out
    main(["models", "--help"])
    assert "WINDLASS_CACHE" in capsys.readouterr().out


def raises(error: BaseException) -> Callable[..., int]:
    def run(args: object) -> int:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UsageError("do this instead"), USAGE, "windlass: do this instead\n"),
        (pulling.PullFailed("broke"), FAILED, "windlass: broke\n"),
        (KeyboardInterrupt(), INTERRUPTED, ""),
        (BrokenPipeError(), FAILED, ""),
    ],
)
def test_errors_become_exit_codes(
    error: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
):
    from windlass.cli.verbs.setup import models

    monkeypatch.setattr(models, "run", raises(error))
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    assert main(["models"]) == code
    assert capsys.readouterr().err == said


def test_script_as_a_process_imports_only_what_it_needs():
    program = (
        "import sys; from windlass.cli.main import main; main(['--version']);"
        "heavy = {'aiohttp', 'asyncio', 'apsw', 'xllamacpp', 'jsonschema_rs', 'windlass.models'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("windlass 0.")


def test_every_verb_has_its_module():
    import importlib

    for name, verb in VERBS.items():
        module = importlib.import_module(verb.module)
        assert verb.module.rpartition(".")[2].rstrip("_") == name
        assert callable(module.configure)
        assert callable(module.run)
        assert verb.summary


def test_every_module_of_a_group_is_a_verb_of_it():
    folder = pathlib.Path(verbs.__file__).parent
    for group, names in GROUPS.values():
        modules = {path.stem for path in (folder / group).glob("*.py")} - {"__init__"}
        assert {name.removesuffix("_") for name in modules} == set(names)


def test_describing_a_verb_imports_nothing_of_the_runtime():
    program = (
        "import sys; from windlass.cli.reference import cli_page; cli_page();"
        "heavy = {'asyncio', 'msgspec', 'windlass.runtime', 'windlass.kernel', 'windlass.store'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
