"""What a server says that it offers, as it said it and within bounds, and the digest that all of it is known by."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from windlass.events.values.blocks import JsonObject, Value

TOOLS_MAX = 500
TOOL_BYTES_MAX = 64 * 1024
"""A tool that is told in more than this is left out."""
NAME_TOLD_CHARS_MAX = 200
"""A tool whose own name is longer is left out too."""
PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")
NAME_CHARS_MAX = 64
"""What every provider takes as the name of a tool."""
HASH_CHARS = 8


class ListedTool(Value, frozen=True, kw_only=True):
    """A tool as its server tells of it. Nothing in it is believed."""

    name: str
    title: str = ""
    description: str = ""
    parameters: JsonObject = {}
    output: JsonObject | None = None
    annotations: JsonObject = {}

    @property
    def read_only(self) -> bool:
        """Whether the server says that it only reads."""
        return self.annotations.get("readOnlyHint") is True


class Listing(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All the tools of a server, in its order."""

    server: str
    tools: tuple[ListedTool, ...] = ()
    about: str = ""
    """The name and version that the server gives itself."""
    protocol: str = ""
    left_out: tuple[str, ...] = ()
    """Tools that are not taken because of their size or number, each with the reason."""
    resources: bool = False
    """Whether the server has resources. Not part of what it is known by: they are named when they are asked for."""
    prompts: bool = False
    """Whether it has prompts; people ask for those by name."""

    @functools.cached_property
    def digest(self) -> str:
        """What the whole list is known by: names, words, schemas, hints and order."""
        raw = msgspec.json.encode((self.tools, self.left_out), order="deterministic")
        return hashlib.blake2b(raw, digest_size=16).hexdigest()

    @functools.cached_property
    def by_name(self) -> dict[str, ListedTool]:
        """The tools under the names that models know them by."""
        return dict(zip(tool_names(self.server, [tool.name for tool in self.tools]), self.tools, strict=True))


def tool_names(server: str, names: Iterable[str]) -> list[str]:
    """`server__tool` for each tool of a server, in letters and lengths that every provider takes. A name that must be
    changed for that gets a mark of what it was. Names that a server chose so that they meet all the same
    are taken out by `listed`."""
    made = []
    for name in names:
        plain = f"{server}__{name}"
        if PLAIN_NAME.match(name) and len(plain) <= NAME_CHARS_MAX:
            made.append(plain)
            continue
        mark = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=HASH_CHARS // 2).hexdigest()
        rest = re.sub(r"[^A-Za-z0-9_-]", "_", name)[: NAME_CHARS_MAX - len(server) - len(mark) - 3]
        made.append(f"{server}__{rest}-{mark}")
    return made


def listed(server: str, tools: Iterable[Any], *, about: str = "", protocol: str = "", cut: str = "") -> Listing:
    """The list that a server gave, as objects of the `mcp` package. Twins, and what is too large, are left out; `cut`
    says why the server was not asked for the rest."""
    tools_by_name: dict[str, ListedTool] = {}
    left_out = [f"whatever follows: {cut}"] if cut else []
    for tool in tools:
        name = str(tool.name)[:NAME_TOLD_CHARS_MAX]
        if len(tools_by_name) >= TOOLS_MAX:
            left_out.append(f"{name}: more than {TOOLS_MAX} tools")
            break
        if name in tools_by_name:
            left_out.append(f"{name}: there are two of this name")
            continue
        if len(str(tool.name)) > len(name):
            left_out.append(f"{name}…: a name of more than {NAME_TOLD_CHARS_MAX} characters")
            continue
        made = _tool(tool)
        size = len(msgspec.json.encode(made))
        if size > TOOL_BYTES_MAX:
            left_out.append(f"{name}: {size} bytes are more than the {TOOL_BYTES_MAX} allowed")
            continue
        tools_by_name[name] = made
    for name, twin in _twins(server, tools_by_name).items():
        del tools_by_name[name]
        left_out.append(f"{name}: {twin} would have the same name here")
    return Listing(
        server=server, tools=tuple(tools_by_name.values()), about=about, protocol=protocol, left_out=tuple(left_out)
    )


def _twins(server: str, names: Collection[str]) -> dict[str, str]:
    """Which tools would share a name of ours, each with another one that does. A call of that name could mean any."""
    by_ours: dict[str, list[str]] = {}
    for name, ours in zip(names, tool_names(server, names), strict=True):
        by_ours.setdefault(ours, []).append(name)
    meeting = [shared for shared in by_ours.values() if len(shared) > 1]
    return {name: shared[0] if name != shared[0] else shared[1] for shared in meeting for name in shared}


def _tool(tool: Any) -> ListedTool:
    hints = tool.annotations
    annotations = hints.model_dump(mode="json", by_alias=True, exclude_none=True) if hints is not None else {}
    return ListedTool(
        name=tool.name,
        title=tool.title or annotations.get("title") or "",
        description=tool.description or "",
        parameters=tool.input_schema,
        output=tool.output_schema,
        annotations=annotations,
    )
