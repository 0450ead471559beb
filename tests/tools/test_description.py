"""What a call is about: the subject that stands for it, and what becomes of descriptions that are none."""

from __future__ import annotations

from typing import Any

import pytest

import windlass
from windlass.events.tools.permissions import ReadDetail, ToolDetail
from windlass.tools.description import DETAIL_BYTES_MAX, SUBJECT_CHARS_MAX, CallPlace, Description, described
from windlass.tools.files import file_tools

PLACE = CallPlace(session="s", agent="a", folder="/desk")


@windlass.tool
def remove(path: str, recursive: bool = False, tries: int = 1) -> None:
    "Remove a file."


@windlass.tool
def pay(invoice: str, cents: int) -> None:
    "Pay an invoice."


@windlass.tool
def now() -> str:
    "Tell the time."
    return ""


def about(tool: Any, **args: Any) -> Description:
    checked = tool.check(args)
    assert checked.errors == ()
    return described(tool, checked.args, PLACE)


@pytest.mark.parametrize(
    ("tool", "args", "subject"),
    [
        (remove, {"path": "tmp/x"}, "tmp/x"),
        (remove, {"path": "tmp/x", "recursive": False}, "tmp/x"),
        (remove, {"path": "tmp/x", "recursive": True}, '{"path":"tmp/x","recursive":true,"tries":1}'),
        (remove, {"path": "{}"}, '{"path":"{}","recursive":false,"tries":1}'),
        (remove, {"path": ""}, '{"path":"","recursive":false,"tries":1}'),
        (remove, {"path": "a b é 漢"}, "a b é 漢"),
        (remove, {"path": "a\nb"}, None),
        (remove, {"path": "a\x1b[2Jb"}, None),
        (remove, {"path": "a\u202eb"}, None),
        (remove, {"path": "x" * SUBJECT_CHARS_MAX}, "x" * SUBJECT_CHARS_MAX),
        (remove, {"path": "x" * (SUBJECT_CHARS_MAX + 1)}, None),
        (pay, {"invoice": "I-7", "cents": 5}, '{"cents":5,"invoice":"I-7"}'),
        (pay, {"invoice": "x" * 300, "cents": 5}, None),
        (pay, {"invoice": "a\nb", "cents": 5}, '{"cents":5,"invoice":"a\\nb"}'),
        (now, {}, "{}"),
    ],
)
def test_a_subject_stands_for_the_whole_call_or_there_is_none(tool, args, subject):
    assert about(tool, **args) == Description(subject=subject)


def test_a_tool_describes_its_calls_from_the_arguments_and_the_place():
    def describe(args: Any, place: CallPlace) -> Description:
        args["path"] = "changed"  # its own copy
        return Description(subject=f"{place.agent} in {place.folder}", paths=("/desk/x",))

    tool = windlass.tool(name="look", describe=describe)(lambda path: path)
    args = {"path": "x"}
    assert described(tool, args, PLACE) == Description(subject="a in /desk", paths=("/desk/x",))
    assert args == {"path": "x"}


@pytest.mark.parametrize(
    ("said", "description"),
    [
        (None, Description(subject="p")),
        ("git push", Description(subject="git push")),
        ("", Description()),
        ("two\nlines", Description()),
        ("x" * 1_000_000, Description()),
        (Description(labels=("private",)), Description(subject="p", labels=("private",))),
        (Description(subject=""), Description()),
        (Description(subject="a\x00b", hosts=("h",)), Description(hosts=("h",))),
        (Description(detail=ToolDetail(tool="look", text="all of it")),) * 1
        + (Description(subject="p", detail=ToolDetail(tool="look", text="all of it")),),
        (Description(unclear="x" * 1_000_000), Description(unclear="x" * 300 + " …")),
    ],
)
def test_what_a_tool_says_of_a_call_is_kept_within_bounds(said, description):
    tool = windlass.tool(name="look", describe=lambda args, place: said)(lambda path: path)
    assert about(tool, path="p") == description


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (7, "describing the call gave 'int' instead of a Description or a text"),
        ({"subject": "x"}, "describing the call gave 'dict' instead of a Description or a text"),
        (Description(paths=("x",) * 65), "describing the call gave paths beyond 64 of 4096 characters"),
        (Description(hosts=("x" * 5_000,)), "describing the call gave hosts beyond 64 of 4096 characters"),
        (
            Description(detail=ReadDetail(path="x" * DETAIL_BYTES_MAX)),
            f"describing the call gave a detail of {DETAIL_BYTES_MAX + 25} bytes, more than {DETAIL_BYTES_MAX}",
        ),
        (
            Description(subject=7),  # type: ignore[arg-type]
            "describing the call raised ValidationError: Expected `str | null`, got `int` - at `$.subject`",
        ),
        (
            Description(labels=(object(),)),  # type: ignore[arg-type]
            "describing the call raised TypeError: Encoding objects of type object is unsupported",
        ),
    ],
)
def test_an_odd_description_makes_the_call_unclear(said, why):
    tool = windlass.tool(name="look", describe=lambda args, place: said)(lambda path: path)
    assert about(tool, path="p") == Description(unclear=why)


def test_what_describes_must_be_callable_and_counts_in_the_digest():
    with pytest.raises(windlass.UsageError, match="describe='x' must be a function of the arguments and the place"):
        windlass.tool(name="look", describe="x")(lambda path: path)  # type: ignore[call-overload]
    options: list[dict[str, Any]] = [{}, {"describe": always_x}, {"describe": always_y}]
    digests = {windlass.tool(name="look", **more)(ask).spec.digest for more in options}
    assert len(digests) == 3


def always_x(args: Any, place: CallPlace) -> str:
    return "x"


def always_y(args: Any, place: CallPlace) -> str:
    return "y"


def ask(path: str) -> str:
    "A function whose source is the same for all."
    return path


@pytest.mark.parametrize(
    ("name", "args", "subject", "path", "intention"),
    [
        ("read", {"path": "src/a.py"}, "src/a.py", "src/a.py", "read 500 lines from line 1 on"),
        ("read", {"path": ".//src/./a.py"}, "src/a.py", "src/a.py", "read 500 lines from line 1 on"),
        ("read", {"path": "src/../b"}, None, "src/../b", "read 500 lines from line 1 on"),
        ("list", {"depth": 2}, ".", ".", "list it, 2 levels deep"),
        ("list", {"path": ""}, ".", ".", "list it, 1 level deep"),
        ("glob", {"pattern": "**/*.py", "path": "src/"}, "src", "src", "find names that match **/*.py"),
        ("grep", {"pattern": "a\nb", "path": "src"}, "src", "src", 'search for "a\\nb"'),
        ("grep", {"pattern": "x", "glob": "*.py"}, ".", ".", "search for x in files that match *.py"),
    ],
)
def test_file_tools_say_which_path_they_read(tmp_path, name, args, subject, path, intention):
    (tool,) = file_tools(tmp_path, name)
    whole = f"{tmp_path}/{path}"
    detail = ReadDetail(path=whole, intention=intention)
    assert about(tool, **args) == Description(subject=subject, detail=detail, root=str(tmp_path), paths=(whole,))


def test_a_path_that_leaves_the_root_is_shown_as_it_is(tmp_path):
    (tool,) = file_tools(tmp_path, "read")
    said = about(tool, path="/etc/passwd")
    assert (said.subject, said.paths) == (None, ("/etc/passwd",))
