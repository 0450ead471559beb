"""What is attached to a prompt, held against what the policy of its session excludes: no model may see it.

Paths are judged as whoever sent the prompt named them, and from the session's folder if they are relative: the folder
that this process happens to work in says nothing about them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import msgspec

from windlass.events.commands import PromptBody
from windlass.events.errors import Refused
from windlass.events.values.blocks import AnyAttachment, DirectoryAttachment, FileAttachment, SelectionAttachment
from windlass.kernel.state import State
from windlass.tools.files.exclusion import Exclusion, exclusion_of
from windlass.tools.files.shown_names import counted, named

PLACED = (FileAttachment, DirectoryAttachment, SelectionAttachment)
"""Attachments of something that lies somewhere."""
LINES_MAX = 1_000
"""Lines of a listing that are held against the patterns; more than whoever reads a directory ever lists."""
SIZE = re.compile(r" \([^()]*\)\Z")
"""What stands behind the name of a file in a listing."""


def without_excluded(body: PromptBody, state: State) -> PromptBody:
    """The body of a prompt with listings that name only what may be seen. Raises `Refused` for what is attached
    although no model may see it."""
    exclusion = exclusion_of(tuple(state.gate.policy.exclude))
    if exclusion is None or not body.attachments:
        return body
    folder = state.workspace.folder.cwd if state.workspace.folder is not None else None
    attachments = tuple(_seen(attached, exclusion, folder) for attached in body.attachments)
    return msgspec.structs.replace(body, attachments=attachments)


def _seen(attached: AnyAttachment, exclusion: Exclusion, folder: str | None) -> AnyAttachment:
    if not isinstance(attached, PLACED):
        return attached
    whole = os.path.join(folder or "", attached.path)
    pattern = exclusion.covering(whole, folder)
    if pattern is None and os.path.isabs(whole):
        pattern = exclusion.covering(os.path.realpath(whole), folder)
    if pattern is not None:
        told = f"the policy of this session excludes {pattern!r} from what models see"
        raise Refused("content_excluded", f"{attached.path!r} cannot be attached: {told}")
    if isinstance(attached, DirectoryAttachment) and attached.listing:
        return _shortened(attached, attached.listing, whole, exclusion, folder)
    return attached


def _shortened(
    attached: DirectoryAttachment, listing: str, whole: str, exclusion: Exclusion, folder: str | None
) -> DirectoryAttachment:
    """A directory whose listing leaves out what is excluded, and says how much that is, not what."""
    lines = listing.split("\n", LINES_MAX)
    behind = lines.pop() if len(lines) > LINES_MAX else ""
    kept = [line for line in lines if not any(exclusion.covering(path, folder) for path in _meant(line, whole))]
    notes = [attached.left_out]
    if behind:
        notes.append(f"all behind the first {counted(LINES_MAX, 'entry')}")
    if hidden := len(lines) - len(kept):
        notes.append(f"{counted(hidden, 'entry')} excluded: no model may see what is there")
    return msgspec.structs.replace(attached, listing="\n".join(kept), left_out="; ".join(filter(None, notes)))


def _meant(line: str, directory: str) -> Iterator[str]:
    """The places that a line of a listing may mean: the entry itself and, for a link, where it leads. Entries are named
    from the directory, or from a folder above it, with its name in front of them."""
    name, _, target = line.partition(" -> ")
    for text in {name, SIZE.sub("", name)}:
        entry = named(text).rstrip("/")
        for base in _bases(entry, directory):
            yield os.path.join(base, entry)
            if target:
                yield os.path.join(base, os.path.dirname(entry), named(target))


def _bases(entry: str, directory: str) -> Iterator[str]:
    """The folders that an entry may be named from."""
    above, below = directory.rstrip("/"), ""
    yield directory
    while above and (name := os.path.basename(above)):
        above, below = os.path.dirname(above), f"{name}/{below}"
        if entry.startswith(below):
            yield above
