"""The writing tools as agents get them, with the words that models read."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from windlass.events import known_types
from windlass.events.values.blocks import JsonObject
from windlass.tools.context import ToolContext, ToolError
from windlass.tools.description import CallPlace, Description
from windlass.tools.files.exclusion import screened
from windlass.tools.files.root import PATH_BYTES_MAX, Root
from windlass.tools.files.roots import Roots
from windlass.tools.files.seen_files import SeenFiles
from windlass.tools.files.shown_names import counted, shown
from windlass.tools.tool import AnyTool, Options, Tool

from . import tree_changes
from .call_descriptions import Planned, description, of_changes, refusal
from .change_maker import ChangeMaker
from .change_plan import (
    EDITS_MAX,
    Basis,
    Change,
    TextEdit,
    planned_edit,
    planned_patch,
    planned_remove,
    planned_write,
)
from .places import Place

TIMEOUT_MS = 60_000

Path = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=PATH_BYTES_MAX,
        description="A path relative to the root, such as 'src/main.py'. Links are not followed.",
    ),
]
Edits = Annotated[
    list[TextEdit],
    Meta(
        min_length=1,
        max_length=EDITS_MAX,
        description="Replacements, made in this order, each in what the ones before it left. An empty `old` makes a "
        "new file of `new`.",
    ),
]


class WriteTools:
    """What the tools do; each method is one of them. One at a time changes anything beneath the root."""

    def __init__(self, roots: Roots, seen: SeenFiles) -> None:
        self.roots = roots
        self._seen = seen

    def write_file(
        self, ctx: ToolContext, path: Path, content: Annotated[str, "The whole new content of the file."]
    ) -> str:
        """Write a whole file, with the directories that are missing above it. A file that is there already must have
        been read before, and is replaced at once; use edit to change a part of it."""
        root = screened(self.roots.of(ctx.folder), ctx.exclude)

        def seen(about: os.stat_result) -> bool:
            return bool(ctx.basis) or self._seen.has(ctx.session, about)

        made = ChangeMaker(ctx, root, self._seen).make(
            lambda done: planned_write(root, path, content, seen) if path_of(root, path) not in done else []
        )
        return _told(made)

    def edit_file(
        self,
        ctx: ToolContext,
        path: Path,
        old: Annotated[str, Meta(min_length=1, description="The text to replace, exactly as it stands in the file.")],
        new: Annotated[str, "What stands there instead."],
        all: Annotated[bool, "Replace it everywhere; otherwise it must stand there exactly once."] = False,
    ) -> str:
        """Replace a text in a file. The text must be given exactly, with its blanks and line ends but without line
        numbers, and with enough of the lines around it to stand there only once."""
        root = screened(self.roots.of(ctx.folder), ctx.exclude)
        made = ChangeMaker(ctx, root, self._seen).make(
            lambda done: planned_edit(root, path, old, new, every=all) if path_of(root, path) not in done else []
        )
        return _told(made)

    def patch_files(self, ctx: ToolContext, edits: Edits) -> str:
        """Make several replacements, in one file or in several, as one whole: all of them or none. Each text to
        replace must be given exactly, and stand in its file exactly once unless `all` is set."""
        root = screened(self.roots.of(ctx.folder), ctx.exclude)

        def plan(done: frozenset[str]) -> list[Change]:
            left = [edit for edit in edits if path_of(root, edit.path) not in done]
            return planned_patch(root, left) if left else []

        return _told(ChangeMaker(ctx, root, self._seen).make(plan))

    def make_directory(self, ctx: ToolContext, path: Path) -> str:
        """Make a directory, with those that are missing above it."""
        return tree_changes.make_directory(ctx, screened(self.roots.of(ctx.folder), ctx.exclude), path)

    def move(self, ctx: ToolContext, path: Path, to: Path) -> str:
        """Move or rename a file or a directory. Nothing may be at the new path yet."""
        return tree_changes.move(ctx, screened(self.roots.of(ctx.folder), ctx.exclude), path, to)

    def remove(self, ctx: ToolContext, path: Path) -> str:
        """Remove a file, or a directory that is empty."""
        root = screened(self.roots.of(ctx.folder), ctx.exclude)
        if tree_changes.is_directory(root, path) or tree_changes.is_identity(ctx.basis):
            return tree_changes.remove_directory(ctx, root, path)
        made = ChangeMaker(ctx, root, self._seen).make(
            lambda done: planned_remove(root, path) if path_of(root, path) not in done else []
        )
        return _told(made)

    # --- before the gate ---

    def describe(self, tool: str, args: JsonObject, place: CallPlace) -> Description:
        """What a call would change."""
        named = [args["path"], *([args["to"]] if "to" in args else [])] if "path" in args else _paths(args)
        places = []
        try:
            root = screened(self.roots.of(place.folder), place.exclude)
            places = [Place(root, path) for path in named]
            preview = description(self._planned(root, tool, args, place.session))
            return msgspec.structs.replace(preview, root=root.path)
        except ToolError as error:
            return refusal(places, error)

    def _planned(self, root: Root, tool: str, args: JsonObject, session: str) -> Planned:
        match tool:
            case "write":
                content = args["content"]
                changes = planned_write(root, args["path"], content, lambda about: self._seen.has(session, about))
                return of_changes(f"{changes[0].operation} it", changes, content)
            case "edit":
                changes = planned_edit(root, args["path"], args["old"], args["new"], every=args["all"])
                return of_changes("replace a text in it", changes)
            case "patch":
                edits = known_types.convert(args["edits"], list[TextEdit])
                return of_changes(f"make {counted(len(edits), 'replacement')} as one whole", planned_patch(root, edits))
            case "make_directory":
                return tree_changes.planned_directory(root, args["path"])
            case "move":
                return tree_changes.planned_move(root, args["path"], args["to"])
        if tree_changes.is_directory(root, args["path"]):
            return tree_changes.planned_removal(root, args["path"])
        return of_changes("remove it", planned_remove(root, args["path"]))


def path_of(root: Root, path: str) -> str:
    """A path in the form in which changes name it."""
    return Place(root, path).shown


def _paths(args: JsonObject) -> list[str]:
    return list(dict.fromkeys(edit["path"] for edit in args["edits"]))


def _told(made: list[Basis]) -> str:
    """What the model reads."""
    lines = []
    for one in made:
        verb = "created" if one.before is None else "removed" if one.after is None else "changed"
        counts = f" (+{one.added} -{one.removed})" if one.after is not None else ""
        lines.append(
            f"{verb} {shown(one.path)}{counts}" if one.before != one.after else f"{shown(one.path)} holds that"
        )
    return "\n".join(lines)


def write_tools(made: WriteTools, wanted: list[str]) -> dict[str, AnyTool]:
    """The tools, by name."""
    functions: dict[str, Callable[..., str]] = {
        "write": made.write_file,
        "edit": made.edit_file,
        "patch": made.patch_files,
        "make_directory": made.make_directory,
        "move": made.move,
        "remove": made.remove,
    }
    return {name: Tool(functions[name], _options(name, made)) for name in wanted if name in functions}


def _options(name: str, made: WriteTools) -> Options:
    # What a call rests on is recorded before it starts, with what comes of it: a second attempt finds out by that what
    # the first one has done, so that even an exact replacement can be made again.
    return Options(
        name=name,
        contract="idempotent",
        traits=("write",),
        kind="write",
        source="builtin",
        timeout_ms=TIMEOUT_MS,
        describe=functools.partial(made.describe, name),
        describe_in_thread=True,
    )
