"""Files, lines and pictures given to a model with a prompt; what was read is kept, whatever becomes of the files."""

from __future__ import annotations

import asyncio
import pathlib
import tempfile
from collections.abc import Sequence

import windlass
from windlass.events.values.blocks import FileAttachment, Image, LineRange, Text
from windlass.testing import ScriptedModel

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(100_000)


CODE = "def pay(cents):\n    return cents / 0\n\nprint(pay(7))\n"

model = ScriptedModel(["Line 2 divides by zero.", "Still line 2."])
reviewer = windlass.Agent("reviewer", model=model)


async def asked(store: pathlib.Path, words: str, attachments: Sequence[pathlib.Path | FileAttachment] = ()) -> str:
    """What the reviewer says, in a session that is opened anew each time."""
    async with windlass.open(store, agents=[reviewer]) as runtime:
        session = await runtime.session(reviewer, "review")
        await session.prompt(words, attachments=attachments)
        return (await session.result()).text


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store, code, screen = (pathlib.Path(folder, name) for name in ("work.db", "pay.py", "screen.png"))
        code.write_text(CODE, encoding="utf-8")
        screen.write_bytes(PICTURE)
        lines = FileAttachment(path=str(code), name="pay.py", lines=LineRange(start=1, end=2))
        print(asyncio.run(asked(store, "What is wrong?", [lines, screen])))
        code.unlink()
        screen.unlink()
        print(asyncio.run(asked(store, "And now?")))
    first, second = (request.items[0] for request in model.requests)
    print(f"the same again: {first.content == second.content}")
    for block in first.content:
        if isinstance(block, Text):
            print(block.text.splitlines()[0].replace(folder, "…"))
        elif isinstance(block, Image) and block.blob is not None:
            print(f"{block.media_type}, {block.blob.size:,} bytes beside the log")


if __name__ == "__main__":
    main()
