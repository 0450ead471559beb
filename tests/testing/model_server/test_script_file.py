"""Scripts of the model server out of files: what each form means, and where a wrong one is wrong."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

from windlass.events.errors import UsageError
from windlass.testing.model_server.answers import Answer, Call, Say, Tokens
from windlass.testing.model_server.faults.fault import fault
from windlass.testing.model_server.script_file import read_script

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "tasks" / "test-an-agent-offline.md"


def written(folder: pathlib.Path, entries: Any) -> pathlib.Path:
    path = folder / "answers.json"
    path.write_text(entries if isinstance(entries, str) else json.dumps(entries), encoding="utf-8")
    return path


def test_the_script_of_the_page_is_read_as_it_says(tmp_path: pathlib.Path):
    (text,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert read_script(written(tmp_path, text)) == [
        "Hello.",
        Answer(parts=(Say(text="I will look."), Call(name="word_count", args={"text": "one two"}))),
        fault("429_seconds"),
        Answer(parts=(Say(text="Two words."),), tokens=Tokens(input=1200, output=20)),
    ]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ("[1,", "answers.json is not JSON: Expecting value: line 1"),
        ({"parts": []}, "answers.json: a script is a list of answers, not an object"),
        ([7], r"answers.json\[0\]: an answer is a text or an object, not a number"),
        (["a", {"part": []}], r"answers.json\[1\]: no key 'part': did you mean 'parts'\?"),
        (
            [{"parts": [{"type": "text", "txt": "x"}]}],
            r"answers.json\[0\].parts\[0\]: no key 'txt': did you mean 'text'\?",
        ),
        ([{"parts": ["x"]}], r"answers.json\[0\].parts\[0\]: a part is an object with a 'type', not a text"),
        (
            [{"parts": [{"type": "say"}]}],
            r"answers.json\[0\].parts\[0\]: no part of type 'say': there are text, reasoning",
        ),
        ([{"parts": [{"type": "text", "text": 7}]}], r"answers.json\[0\].parts\[0\].text: expected `str`, got `int`"),
        ([{"parts": [{"type": "text"}]}], r"answers.json\[0\].parts\[0\]: object missing required field `text`"),
        ([{"parts": "x"}], r"answers.json\[0\].parts: expected `array`, got `str`"),
        ([{"tokens": {"in": 1}}], r"answers.json\[0\].tokens: no key 'in'"),
        ([{"finish": "done"}], r"answers.json\[0\].finish: invalid enum value 'done'"),
        ([{"fault": "nosuch"}], r"answers.json\[0\]: no fault 'nosuch': choose one of 400, "),
        ([{"fault": "drip", "dely_ms": 1}], r"answers.json\[0\]: no key 'dely_ms': did you mean 'delay_ms'\?"),
        ([{"fault": "drip", "delay_ms": "x"}], r"answers.json\[0\].delay_ms: expected `int \| null`, got `str`"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(entries: Any, message: str, tmp_path: pathlib.Path):
    with pytest.raises(UsageError, match=message):
        read_script(written(tmp_path, entries))


def test_the_command_says_it_and_ends(tmp_path: pathlib.Path):
    words = [sys.executable, "-m", "windlass.testing.server", "--script"]
    wrong = subprocess.run(
        [*words, str(written(tmp_path, [{"prts": []}]))], capture_output=True, text=True, check=False
    )
    assert (wrong.returncode, wrong.stderr) == (
        1,
        "python -m windlass.testing.server: answers.json[0]: no key 'prts': did you mean 'parts'?\n",
    )
    gone = subprocess.run([*words, str(tmp_path / "none.json")], capture_output=True, text=True, check=False)
    assert gone.stderr.startswith("python -m windlass.testing.server: cannot read ")


def test_any_program_may_talk_to_the_server_of_the_page(tmp_path: pathlib.Path):
    (text,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    script = str(written(tmp_path, text))
    words = [sys.executable, "-m", "windlass.testing.server", "--script", script]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            root = server.stdout.readline().strip()
            environ = os.environ | {"OPENAI_BASE_URL": f"{root}/v1", "OPENAI_API_KEY": "none"}
            run = [sys.executable, "-m", "windlass.cli.main", "run", "--model", "openai/gpt-5-mini", "Hi."]
            said = subprocess.run(
                [*run, "--store", str(tmp_path / "work.db")],
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        finally:
            server.terminate()
    assert (said.returncode, said.stdout) == (0, "Hello.\n"), said.stderr
