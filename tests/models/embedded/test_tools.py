"""What the embedded model makes of tools that it has never been shown solved turns of: twenty requests, ten of which the
examples were tuned on and ten of which were held out. It is a very small model; the test holds it to what it can do.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

import windlass
from windlass.events.values.blocks import Text
from windlass.events.values.items import (
    AssistantItem,
    CallPart,
    HistoryItem,
    ModelSettings,
    ResultItem,
    ToolSchema,
    UserItem,
)
from windlass.models.base import CallPartDelta, ModelInfo, Reply, Request
from windlass.models.embedded.constrained import ConstrainedModel
from windlass.models.embedded.model import missing, model_path
from windlass.models.embedded.solved_examples import solved_examples, tool_lines
from windlass.models.embedded.tool_prompt import Example
from windlass.testing.scripted import ScriptedModel

FILES = {
    "README.md": "# Harbor\n\nHarbor counts the ships that come in.\n",
    "config.toml": "[server]\nport = 8080\n",
    "notes.txt": "Lunch with Maria is on Thursday.\n",
    "todo.md": "- buy blue paint\n",
    "src/main.py": "def count_ships(log):\n    return len(log)\n",
}


@windlass.tool(contract="pure")
def add(x: int, y: int) -> str:
    "Add two numbers."
    return str(x + y)


@windlass.tool(contract="pure")
def weather(city: str) -> str:
    "Get the weather of a city."
    return f"rain, {10 + len(city)} degrees"


@windlass.tool(contract="pure")
def translate(text: str, language: str) -> str:
    "Translate a text into another language."
    return {"cat": "gato", "dog": "Hund"}.get(text.lower(), "unknown")


@windlass.tool(contract="pure")
def send_mail(to: str, text: str) -> str:
    "Send a mail to somebody."
    return "sent"


class Case(msgspec.Struct, frozen=True):
    """A request, the tools at hand, the first call that is right (none where it is to be answered without one) and
    words of which the answer must have one."""

    asked: str
    tools: tuple[Any, ...]
    tool: str | None = None
    args: dict[str, Any] = {}
    words: tuple[str, ...] = ()


FOLDER = ("read", "list", "grep")
HERE = (None, "", ".", "./")
SMALL = (add, weather)
OFFICE = (send_mail, translate)
TUNED = [
    Case("What is in notes.txt?", FOLDER, "read", {"path": "notes.txt"}, ("Thursday", "Maria")),
    Case("List the files in this folder.", FOLDER, "list", {"path": HERE}, ("notes.txt",)),
    Case("Find the word port in the files.", FOLDER, "grep", {"pattern": "port"}, ("8080", "config.toml")),
    Case("Read todo.md and tell me what to buy.", FOLDER, "read", {"path": "todo.md"}, ("paint",)),
    Case("What files are in src?", FOLDER, "list", {"path": "src"}, ("main.py",)),
    Case("Hello, how are you?", FOLDER),
    Case("Which file mentions ships?", FOLDER, "grep", {"pattern": "ships"}, ("README.md", "main.py")),
    Case("What is 12 + 30?", SMALL, "add", {"x": 12, "y": 30}, ("42",)),
    Case("What is the weather in Oslo?", SMALL, "weather", {"city": "Oslo"}, ("rain", "14")),
    Case("Thank you!", SMALL),
]
HELD_OUT = [
    Case("Show me config.toml.", FOLDER, "read", {"path": "config.toml"}, ("8080",)),
    Case("What does README.md say?", FOLDER, "read", {"path": "README.md"}, ("ships", "Harbor")),
    Case("Which files are here?", FOLDER, "list", {"path": HERE}, ("README.md",)),
    Case("What is in the folder src?", FOLDER, "list", {"path": "src"}, ("main.py",)),
    Case("Search for the word Maria.", FOLDER, "grep", {"pattern": "Maria"}, ("notes.txt", "Thursday")),
    Case("Where is count_ships defined?", FOLDER, "grep", {"pattern": "count_ships"}, ("main.py",)),
    Case("Add 7 and 55.", SMALL, "add", {"x": 7, "y": 55}, ("62",)),
    Case("How warm is it in Lima?", SMALL, "weather", {"city": "Lima"}, ("14", "rain")),
    Case("What is the capital of France?", FOLDER, None, {}, ("Paris",)),
    Case("Translate cat into Spanish.", OFFICE, "translate", {"text": "cat", "language": "Spanish"}, ("gato",)),
]


class Seen(msgspec.Struct):
    """What became of a request: its calls, its answer."""

    calls: list[tuple[str, dict[str, Any]]] = []
    answer: str = ""
    end: str = ""


def called_right(case: Case, seen: Seen) -> bool:
    """Whether the first call is the right one, or there was none where none was due."""
    if case.tool is None:
        return not seen.calls
    if not seen.calls or seen.calls[0][0] != case.tool:
        return False
    given = seen.calls[0][1] or {}
    wanted = {name: value if isinstance(value, tuple) else (value,) for name, value in case.args.items()}
    return all(given.get(name) in values for name, values in wanted.items())


def right(case: Case, seen: Seen) -> bool:
    """Whether the whole went right: the call, and an answer that says what was found."""
    done = seen.end == "completed" and bool(seen.answer.strip())
    said = not case.words or any(word in seen.answer for word in case.words)
    return called_right(case, seen) and done and said


async def ask(case: Case) -> Seen:
    """Runs one request to its end."""
    agent = windlass.Agent(
        "a",
        model="embedded",
        tools=case.tools,
        budget=windlass.Budget(turns=4),
        model_settings=ModelSettings(max_output_tokens=160),
    )
    seen = Seen()
    async for event in agent.stream(case.asked):
        if isinstance(event, windlass.ModelReplied) and event.body is not None:
            seen.calls += [(found.call.tool, found.call.args or {}) for found in event.body.calls]
            seen.answer = "".join(block.text for block in event.body.blocks if hasattr(block, "text"))
        elif type(event).__name__.startswith("Run") and hasattr(event, "stop"):
            seen.end = event.stop
    return seen


async def score(cases: Sequence[Case]) -> tuple[int, int, list[str]]:
    """How many first calls were right, how many requests went right as a whole, and what was said."""
    calls = whole = 0
    told = []
    for case in cases:
        seen = await ask(case)
        calls += called_right(case, seen)
        whole += right(case, seen)
        mark = "right" if right(case, seen) else "call " if called_right(case, seen) else "wrong"
        told.append(f"{mark} {case.asked!r}: {seen.calls} {seen.answer!r} ({seen.end})")
    return calls, whole, told


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_examples_show_only_what_a_call_needs_most_like_the_request_last(folder: pathlib.Path):
    offered = schemas(FOLDER)
    shown = [
        (example.asked, example.tool, example.arguments)
        for example in solved_examples(offered, True, "What is in a.txt?")
    ]
    assert shown == [
        ("Hello!", None, {}),
        ("Open plan.txt.", "read", {"path": "plan.txt"}),
        ("Read data.csv.", "read", {"path": "data.csv"}),
        ("What is written in data.csv?", "read", {"path": "data.csv"}),
    ]
    nothing_shared = solved_examples(offered, True, "zzz")
    assert {example.tool for example in nothing_shared} == {None, "read", "list", "grep"}
    assert all(example.tool for example in solved_examples(offered, False, "Hello!"))
    assert solved_examples(offered, True, "Hello!")[-1] == Example(asked="Hello!", answer="Hello! How can I help?")


def test_values_stand_where_the_description_names_them():
    (mail, translation) = schemas(OFFICE)
    asked = [example.asked for example in solved_examples((translation,), False, "")]
    assert asked == ["Translate good morning into French."]
    assert tool_lines((mail,), "") == (
        "You pick one tool for each request.\n"
        "Tools:\n"
        "- send_mail(to, text): Send a mail to somebody.\n"
        'Reply with JSON only: {"tool": "<name>", "arguments": {...}}'
    )


@hypothesis.given(st.text(max_size=80), st.text(max_size=40), st.sampled_from(["path", "n", "a b", "{}", "\\1"]))
def test_examples_can_be_made_of_any_tool(description: str, asked: str, name: str):
    parameters = {
        "type": "object",
        "properties": {name: {"type": "string"}, "m": {"type": "array"}},
        "required": [name],
    }
    tools = (ToolSchema(name="get_it", description=description, parameters=parameters),)
    for example in solved_examples(tools, True, asked):
        assert example.tool is None or set(example.arguments) == {name}


CALL = '{"tool": "add", "arguments": {"x": 1, "y": 2}}'
ANSWER = '{"tool": "answer", "arguments": {"text": "3"}}'


async def asked_again(*said: str, tiny: bool) -> tuple[list[Any], list[Request]]:
    """What becomes of a request that already has the result of a call."""
    inner = ScriptedModel(list(said), info=ModelInfo(name="m", provider="p", model="m", native_output=True))
    items: list[HistoryItem] = [
        UserItem(content=(Text(text="1 + 2?"),)),
        AssistantItem(content=(CallPart(call_id="c", tool="add", args={"x": 1, "y": 2}),)),
        ResultItem(call_id="c", tool="add", content=(Text(text="3"),)),
    ]
    request = Request(model="m", items=items, tools=schemas((add,)))
    pieces = [piece async for piece in ConstrainedModel(inner, tiny=tiny).stream(request)]
    return pieces, inner.requests


async def test_tiny_model_that_repeats_a_call_is_made_to_answer():
    pieces, requests = await asked_again(CALL, ANSWER, tiny=True)
    assert isinstance(pieces[-1], Reply)
    assert (pieces[-1].blocks, pieces[-1].calls) == ((Text(text="3"),), ())
    assert not any(isinstance(piece, CallPartDelta) for piece in pieces)
    tools = [[branch["properties"]["tool"]["const"] for branch in schema_of(request)["oneOf"]] for request in requests]
    assert tools == [["add", "answer"], ["answer"]]


async def test_examples_stand_between_what_was_said_before_and_what_is_asked_now():
    inner = ScriptedModel([ANSWER], info=ModelInfo(name="m", provider="p", model="m", native_output=True))
    items: list[HistoryItem] = [
        UserItem(content=(Text(text="before"),)),
        AssistantItem(content=(Text(text="said"),)),
        UserItem(content=(Text(text="now"),)),
    ]
    request = Request(model="m", items=items, tools=schemas((add,)))
    _ = [piece async for piece in ConstrainedModel(inner, tiny=True).stream(request)]
    texts = ["".join(getattr(part, "text", "") for part in item.content) for item in inner.requests[0].items]
    assert texts[:2] == ["before", '{"tool": "answer", "arguments": {"text": "said"}}']
    assert texts[2:4] == ["Hello!", '{"tool": "answer", "arguments": {"text": "Hello! How can I help?"}}']
    assert texts[-1] == "now"


async def test_tiny_model_may_make_another_call_and_others_may_repeat_one():
    other = CALL.replace("2", "5")
    pieces, _ = await asked_again(other, tiny=True)
    assert [call.args for call in pieces[-1].calls] == [{"x": 1, "y": 5}]
    assert next(piece.tool for piece in pieces if isinstance(piece, CallPartDelta)) == "add"
    pieces, _ = await asked_again(CALL, tiny=False)
    assert [call.args for call in pieces[-1].calls] == [{"x": 1, "y": 2}]


def schemas(tools: Sequence[Any]) -> tuple[ToolSchema, ...]:
    found = windlass.Agent("a", tools=tools).toolset.texts
    return tuple(ToolSchema(name=t.name, description=t.description, parameters=t.parameters) for t in found)


def schema_of(request: Request) -> dict[str, Any]:
    assert request.output is not None
    return request.output.json_schema


@pytest.mark.long
@pytest.mark.parametrize(("cases", "calls", "whole"), [(TUNED, 7, 5), (HELD_OUT, 7, 5)], ids=["tuned", "held out"])
async def test_model_uses_tools_that_it_was_never_shown(
    folder: pathlib.Path, cases: Sequence[Case], calls: int, whole: int
):
    problem = missing(model_path())
    assert problem is None, problem
    found = await score(cases)
    assert found[0] >= calls, "\n".join(found[2])
    assert found[1] >= whole, "\n".join(found[2])
