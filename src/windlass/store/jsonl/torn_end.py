"""The torn end of a file, which a writer that died left behind: its bytes are kept in `torn/` beside the log before
they are cut off, and each owner is told of them until an append is kept."""

from __future__ import annotations

import pathlib
from typing import Any

import msgspec

from windlass.events.errors import StorageFull
from windlass.store.base import Key, Recovered

from .disk import Disk
from .line_file import LineFile
from .small_files import decoded


class TornEnds:
    """What was cut from the files of one session, and what of it nobody was told yet."""

    def __init__(self, key: Key, path: pathlib.Path, disk: Disk) -> None:
        self._key = key
        self._room = path / "torn"
        self._disk = disk
        self.untold = self._left_untold()

    def cut(self, file: LineFile[Any], seq: int) -> None:
        """Cuts off what is torn of a file, behind the record `seq`. The bytes are safe before they leave it."""
        if not file.torn:
            return
        for folder in self._disk.make_folder(self._room):
            self._disk.sync_directory(folder)
        number = len(list(self._room.iterdir()))
        kept = self._room / f"{number:04d}-{file.path.stem}-at-{file.end}-after-{seq}.bin"
        notice = Recovered(key=self._key, seq=seq, offset=file.end, size=file.torn, path=str(kept))
        self._disk.put(kept, file.read(file.end, file.torn), sync=True)
        self._disk.sync_directory(self._room)
        file.cut()
        self.untold.append(notice)

    def told(self) -> None:
        """An append was kept after the claim that showed what was cut: it need not be shown again."""
        if not self.untold:
            return
        names = sorted(pathlib.Path(notice.path).name for notice in self.untold)
        told = decoded(self._room / "told.json", list[str]) or []
        self.untold = []
        try:
            self._disk.put(self._room / "told.json", msgspec.json.encode(told + names), sync=False)
        except StorageFull:
            return  # the append itself was kept; then it is told twice

    def _left_untold(self) -> list[Recovered]:
        if not self._room.exists():
            return []
        told = decoded(self._room / "told.json", list[str]) or []
        return [self._notice(kept) for kept in sorted(self._room.glob("*.bin")) if kept.name not in told]

    def _notice(self, kept: pathlib.Path) -> Recovered:
        *_, offset, _, seq = kept.stem.split("-")
        return Recovered(key=self._key, seq=int(seq), offset=int(offset), size=kept.stat().st_size, path=str(kept))
