"""What the tests of the file tools share: a root with secrets around it, and a short way to call a tool."""

from __future__ import annotations

import gc
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from windlass.tools.context import ToolContext, ToolError
from windlass.tools.files import file_tools
from windlass.tools.files.root import Means

SECRET = "the-secret-outside"
MEANS: list[Means] = ["kernel", "walk"]


class Bench:
    """A root at `place/root` whose tools can be called; `SECRET` is what lies outside of it."""

    def __init__(self, place: pathlib.Path, **more: Any) -> None:
        self.place = place
        self.root = place / "root"
        self.root.mkdir(exist_ok=True)
        (place / "secret.txt").write_text(SECRET)
        self.tools = {tool.name: tool for tool in file_tools(self.root, **more)}

    def write(self, path: str, content: str | bytes = "") -> pathlib.Path:
        """A file in the root, with its directories."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def call(self, tool: str, **args: Any) -> str:
        """What the model is told; the arguments are checked first, as before a real call."""
        checked = self.tools[tool].check(args)
        assert checked.errors == ()
        return self.bare(tool, **self.tools[tool].parameters.values(checked.args))

    def bare(self, tool: str, **args: Any) -> str:
        """The same without a check, for arguments that no model could give."""
        return str(self.tools[tool](ToolContext(session="s", call_id="c"), **args))

    def refused(self, tool: str, **args: Any) -> ToolError:
        """The error of a call that must fail."""
        with pytest.raises(ToolError) as caught:
            self.bare(tool, **args)
        assert SECRET not in caught.value.told
        return caught.value

    def code(self, tool: str, **args: Any) -> str | None:
        """The code of the error of a call that may fail; None where it does not."""
        try:
            self.call(tool, **args)
        except ToolError as error:
            return error.code
        return None


def open_descriptors() -> int:
    """How many descriptors this process holds, beside those of what nobody uses any more."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def every_way(bench: Bench, path: str) -> list[tuple[str, Callable[[], str]]]:
    """Each way in which a tool may be led to a path."""
    return [
        ("read", lambda: bench.bare("read", path=path)),
        ("list", lambda: bench.bare("list", path=path)),
        ("glob", lambda: bench.bare("glob", pattern="**", path=path)),
        ("grep", lambda: bench.bare("grep", pattern="secret", path=path)),
    ]
