"""Boxes as Mermaid text, which many pages and editors draw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .boxes import COLOURS, Box, Link


def mermaid(boxes: Sequence[Box], links: Iterable[Link]) -> str:
    """The diagram. Boxes are numbered: their names may hold what Mermaid takes for something else."""
    ids = {box.name: f"n{number}" for number, box in enumerate(boxes)}
    lines = ["flowchart TD"]
    for box in boxes:
        begin, end = ("([", "])") if box.shape == "round" else ("[", "]")
        words = "<br/>".join(safe(text) for text in (box.title, box.below) if text)
        lines.append(f"    {ids[box.name]}{begin}{quoted(words)}{end}")
    lines += [arrow(ids[link.source], ids[link.target], link) for link in links]
    return "\n".join([*lines, *filled([(ids[box.name], box.status) for box in boxes])]) + "\n"


def arrow(source: str, target: str, link: Link) -> str:
    """One arrow between two ids."""
    line = "-.->" if link.optional else "-->"
    label = f"|{quoted(safe(link.label))}|" if link.label else ""
    return f"    {source} {line}{label} {target}"


def filled(statuses: Sequence[tuple[str, str]]) -> list[str]:
    """The colours of ids, by how far each has got."""
    lines = []
    for status, colour in COLOURS.items():
        named = [name for name, there in statuses if there == status]
        if named:
            lines += [f"    classDef {status} fill:{colour}", f"    class {','.join(named)} {status}"]
    return lines


def quoted(text: str) -> str:
    return f'"{text}"'


def safe(text: str) -> str:
    """Words without what Mermaid or a page would take for something else."""
    for sign, word in (("&", "#amp;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"), ("\n", " ")):
        text = text.replace(sign, word)
    return text
