"""What goes with a prompt, told to whoever sends it: each attachment in a line, with what was left out of it."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.cli.terminal.visible_text import spelt
from windlass.events.values.blocks import AnyAttachment
from windlass.runtime.operate.item_text import attachment_line


def attachment_lines(attachments: Iterable[AnyAttachment]) -> list[str]:
    """A line for each."""
    return [f"attached {spelt(attachment_line(attachment))}" for attachment in attachments]
