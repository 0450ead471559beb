"""What files held before a tool changed them, and after that: as blobs, with what was left out and why."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.events.stored.known_secrets import SECRETS
from windlass.events.values.blocks import BlobRef
from windlass.events.workspace import KeptFile
from windlass.store.base import blob_digest
from windlass.tools.context import CHANGED_PATH_CHARS_MAX, ChangedFile

BYTES_MAX = 4 * 1024 * 1024
"""The largest content that is kept."""
CALL_BYTES_MAX = 32 * 1024 * 1024
"""How much is kept of one call; files behind that are left out."""


def kept_files(files: Sequence[ChangedFile]) -> tuple[tuple[KeptFile, ...], dict[str, bytes]]:
    """The files as they are recorded, and their contents by digest."""
    blobs: dict[str, bytes] = {}
    kept = []
    for path, before, after in files:
        contents = [data for data in (before, after) if data is not None]
        left_out = _left_out(contents, sum(map(len, blobs.values())))
        refs = {name: _ref(data) for name, data in (("before", before), ("after", after)) if not left_out}
        if not left_out:
            blobs |= {blob_digest(data): data for data in contents}
        kept.append(KeptFile(path=path[:CHANGED_PATH_CHARS_MAX], left_out=left_out, **refs))
    return tuple(kept), blobs


def _ref(data: bytes | None) -> BlobRef | None:
    return None if data is None else BlobRef(digest=blob_digest(data), size=len(data))


def _left_out(contents: list[bytes], so_far: int) -> str:
    """Why contents are not kept; empty if they are."""
    if any(len(data) > BYTES_MAX for data in contents):
        return f"it has more than {BYTES_MAX:,} bytes"
    if so_far + sum(map(len, contents)) > CALL_BYTES_MAX:
        return f"the call changes more than {CALL_BYTES_MAX:,} bytes"
    if any(SECRETS.within(data) for data in contents):
        return "it holds a secret that is never written down"
    return ""
