"""The file tools as agents get them: tools over one root, with the words that models read. Those that write are in
`write`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from typing import Annotated

from msgspec import Meta

from windlass.events.errors import UsageError
from windlass.tools.context import ToolContext
from windlass.tools.tool import AnyTool, Options, Tool

from .calls import read_description
from .exclusion import screened
from .glob_patterns import PATTERN_CHARS_MAX
from .ignores import NOISE, Ignores
from .limits import FileLimits, Watch
from .root import PATH_BYTES_MAX, Means, Root
from .roots import Roots
from .seen_files import SeenFiles

FILE_TOOLS = ("list", "read", "glob", "grep")
WRITE_TOOLS = ("write", "edit", "patch", "make_directory", "move", "remove")
TIMEOUT_MS = 30_000
"""For what the time limit of a search cannot reach, such as a network file system that does not answer."""
CONTEXT_MAX = 10

Path = Annotated[
    str, Meta(max_length=PATH_BYTES_MAX, description="A path relative to the root, such as 'src/main.py'.")
]
Folder = Annotated[str, Meta(max_length=PATH_BYTES_MAX, description="Where to look, relative to the root.")]
Glob = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=PATTERN_CHARS_MAX,
        description="Such as '**/*.py' or 'src/*.{js,ts}'. '**' = any directories.",
    ),
]
Offset = Annotated[int, Meta(ge=0, le=1_000_000_000, description="How many to skip, to go on where a result ended.")]


class FileTools:
    """What the tools do; each method is one of them. All are safe to call at once, from any thread."""

    def __init__(self, roots: Roots, ignores: Ignores, limits: FileLimits) -> None:
        self.roots = roots
        self.seen = SeenFiles()
        self._ignores = ignores
        self._limits = limits

    def list_entries(
        self,
        ctx: ToolContext,
        path: Folder = ".",
        depth: Annotated[int, Meta(ge=1, le=10, description="How many levels down.")] = 1,
        all: Annotated[bool, "Also what is usually noise: .git, caches, what .gitignore names."] = False,
        offset: Offset = 0,
        limit: Annotated[int, Meta(ge=1, le=1_000)] = 200,
    ) -> str:
        """List a directory: names sorted, directories with a slash, files with their size. Paths in the result can be
        given to the other tools as they are."""
        from .list_tool import entries

        ignores = Ignores(frozenset(), files=False) if all else self._ignores
        watch = Watch(self._limits, ctx)
        return entries(
            screened(self.roots.of(ctx.folder), ctx.exclude),
            path,
            depth=depth,
            offset=offset,
            limit=limit,
            ignores=ignores,
            limits=self._limits,
            watch=watch,
        )

    def read_file(
        self,
        ctx: ToolContext,
        path: Path,
        offset: Annotated[int, Meta(ge=1, le=1_000_000_000, description="The line to begin with.")] = 1,
        limit: Annotated[int, Meta(ge=1, le=1_000, description="How many lines.")] = 500,
        column: Annotated[
            int, Meta(ge=1, le=1_000_000, description="For very long lines: the character to begin with.")
        ] = 1,
    ) -> str:
        """Read a text file. Each line is shown with its number and a tab before it; the first line of the result says
        which lines these are and how to go on."""
        from .read_tool import read

        watch = Watch(self._limits, ctx)
        root = screened(self.roots.of(ctx.folder), ctx.exclude)

        def seen(fd: int) -> None:
            self.seen.add(ctx.session, os.fstat(fd))

        return read(
            root,
            path,
            offset=offset,
            limit=limit,
            column=column,
            limits=self._limits,
            watch=watch,
            seen=seen,
            blotted=ctx.blotted,
        )

    def glob_paths(
        self,
        ctx: ToolContext,
        pattern: Glob,
        path: Folder = ".",
        offset: Offset = 0,
        limit: Annotated[int, Meta(ge=1, le=1_000)] = 200,
    ) -> str:
        """Find files by name pattern, sorted by path. A pattern that ends in '/' finds directories. Noise such as .git,
        caches and what .gitignore names is left out, unless `path` names it."""
        from .list_tool import paths

        watch = Watch(self._limits, ctx)
        return paths(
            screened(self.roots.of(ctx.folder), ctx.exclude),
            pattern,
            path,
            offset=offset,
            limit=limit,
            ignores=self._ignores,
            limits=self._limits,
            watch=watch,
        )

    def grep_lines(
        self,
        ctx: ToolContext,
        pattern: Annotated[
            str,
            Meta(
                min_length=1,
                max_length=PATTERN_CHARS_MAX,
                description="A regular expression, matched line by line; no look-around, no back-references.",
            ),
        ],
        path: Annotated[str, Meta(max_length=PATH_BYTES_MAX, description="A directory or a file.")] = ".",
        glob: Annotated[Glob | None, "Only files that match, such as '*.py'."] = None,
        ignore_case: bool = False,
        context: Annotated[int, Meta(ge=0, le=CONTEXT_MAX, description="Lines to show around each match.")] = 0,
        files_only: Annotated[bool, "Only the paths of files with a match."] = False,
        offset: Offset = 0,
        limit: Annotated[int, Meta(ge=1, le=1_000)] = 100,
    ) -> str:
        """Search file contents. Each file's path stands above its matching lines, which have their number and a colon
        (a hyphen for lines around a match). Noise such as .git, caches and what .gitignore names is left out, unless
        `path` names it; so are files that are not text."""
        from .grep_tool import Query, Search

        query = Query(
            pattern=pattern,
            path=path,
            glob=glob,
            ignore_case=ignore_case,
            context=context,
            files_only=files_only,
            offset=offset,
            limit=limit,
        )
        root = screened(self.roots.of(ctx.folder), ctx.exclude)
        return Search(root, query, self._limits, Watch(self._limits, ctx), ctx.blotted).run(self._ignores)


def file_tools(
    root: str | os.PathLike[str] = ".",
    names: Iterable[str] = FILE_TOOLS,
    *,
    ignored: Iterable[str] = NOISE,
    gitignore: bool = True,
    limits: FileLimits | None = None,
    means: Means | None = None,
    by_session: bool = False,
) -> tuple[AnyTool, ...]:
    """Tools beneath the directory `root`, which is opened now and held: those that read (`list`, `read`, `glob` and
    `grep`), or those that are named, among which may be some that write (`write`, `edit`, `patch`, `make_directory`,
    `move`, `remove`). With `by_session` a session that works in a folder has that folder instead.

    `ignored` are file names that walks leave out, `gitignore` says whether they also heed .gitignore files. Raises
    `UsageError` for a root that cannot be opened and for names that mean nothing."""
    wanted = [names] if isinstance(names, str) else list(names)
    unknown = [name for name in wanted if name not in (*FILE_TOOLS, *WRITE_TOOLS)]
    if unknown:
        known = ", ".join((*FILE_TOOLS, *WRITE_TOOLS))
        raise UsageError(f"there is no file tool {unknown[0]!r}: there are {known}")
    roots = Roots(Root(root, means=means), by_session=by_session, means=means)
    made = FileTools(roots, Ignores(frozenset(ignored), files=gitignore), limits or FileLimits())
    functions: dict[str, Callable[..., str]] = {
        "list": made.list_entries,
        "read": made.read_file,
        "glob": made.glob_paths,
        "grep": made.grep_lines,
    }
    writing: dict[str, AnyTool] = {}
    if any(name in WRITE_TOOLS for name in wanted):
        from .write.tool_definitions import WriteTools, write_tools

        writing = write_tools(WriteTools(made.roots, made.seen), wanted)
    return tuple(writing.get(name) or Tool(functions[name], _options(name, made)) for name in wanted)


def _options(name: str, made: FileTools) -> Options:
    return Options(
        name=name,
        contract="pure",
        traits=("read",),
        kind="read",
        source="builtin",
        timeout_ms=TIMEOUT_MS,
        describe=functools.partial(read_description, made.roots, name),
    )
