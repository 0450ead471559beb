"""What the model sees at a point of a session, in lines for people: the weight of each slot, then every item whole."""

from __future__ import annotations

from windlass.cli.terminal.text import Paint
from windlass.cli.terminal.visible_text import spelt
from windlass.runtime.operate.inspection import Inspection
from windlass.runtime.operate.item_text import item_text, speaker

from . import number_words
from .labels import since
from .person_requests import barred


def inspection_lines(seen: Inspection) -> list[str]:
    """All of it."""
    paint = Paint()
    lines = [f"session {spelt(seen.session)} after record {seen.at}, for {spelt(seen.model)}", "", *weights(seen)]
    if seen.labels:
        told = "\n".join(since(source.found, source.subject) for source in seen.labels)
        lines += ["", paint("labels", "bold"), *barred(told, paint.out)]
    for head, text in (("instructions", seen.instructions), ("tools", "\n".join(seen.tools))):
        if text:
            lines += ["", paint(head, "bold"), *barred(text, paint.out)]
    for text in seen.knowledge:
        lines += ["", paint("knowledge", "bold"), *barred(text, paint.out)]
    for item in seen.items:
        lines += ["", paint(spelt(f"[{item.key}] {speaker(item)}"), "bold"), *barred(item_text(item), paint.out)]
    if not seen.items:
        lines += ["", "the history is empty: the model has been told nothing yet"]
    if seen.task_state:
        head = "task state (behind the history, never kept in it)"
        lines += ["", paint(head, "bold"), *barred(seen.task_state, paint.out)]
    return lines


def weights(seen: Inspection) -> list[str]:
    """Tokens by slot, and how much of the model's window they fill."""
    used, window = sum(seen.tokens.values()), seen.window_tokens
    rows = [(name, f"{count:,}") for name, count in seen.tokens.items()]
    lines = number_words.table([*rows, ("all", f"{used:,}")], right=(1,))
    share = f"{used / window:.0%}" if used * 100 >= window else "less than 1%"
    return [*lines[:-1], f"{lines[-1]} of {window:,} tokens ({share})"]
