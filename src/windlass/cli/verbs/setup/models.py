"""`windlass models`: what there is, what would be chosen and why; `windlass models pull embedded`.

Thin: it asks the catalogue and prints.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

EXAMPLES = """examples:
  windlass models                    every model that is known, the one that would be used marked with *
  windlass models --json             the same for programs, one JSON array
  windlass models --model sonnet     what a name means
  windlass models pull embedded      fetch the model that needs no key (93 MB, once)

The model is chosen by name, else by the first key in the environment, else from a local Ollama, else it is the
embedded one. WINDLASS_MODEL names one for every program; WINDLASS_CACHE says where the embedded one is kept.
"""

ABILITIES = (
    ("tools", "tools", "t"),
    ("images", "images", "i"),
    ("documents", "documents", "d"),
    ("native_output", "output", "o"),
    ("thinking", "thinking", "T"),
)
"""What a model may be able to do: the field that says so, the word and the letter for it."""
LEGEND = "READY: its key is in the environment, or it is installed. CAN: " + ", ".join(
    f"{letter} {word}" for _, word, letter in ABILITIES
)
PULLABLE = ("embedded",)
MICROS_PER_USD = 1_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--model", metavar="NAME", help="say what this name means instead of listing them all")
    actions = parser.add_subparsers(dest="action", metavar="<action>", title="actions")
    pull = actions.add_parser("pull", help="fetch a model that runs in this process")
    pull.add_argument("what", choices=PULLABLE, help="which one")
    pull.add_argument("--index-url", metavar="URL", help="take the package from another index than pip's own")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    if args.action == "pull":
        from windlass.cli.terminal.text import put
        from windlass.models.embedded.pull import pull

        path = pull(index_url=args.index_url, say=lambda line: put(line, sys.stderr, flush=True))
        put(str(path))
        return 0
    return show(args.model, as_json=args.json)


def show(name: str | None, *, as_json: bool) -> int:
    """Prints the catalogue with the chosen model marked."""
    from windlass.cli.terminal.text import put, screen_width, tell, tell_json
    from windlass.models.catalogue.data import PRICES_AS_OF
    from windlass.models.catalogue.names import EMBEDDED, default_catalogue, resolve
    from windlass.models.embedded.model import missing, model_path

    chosen = resolve(name)
    known = dict(default_catalogue().models)
    known[chosen.name] = chosen
    rows = [row(info, chosen.name) for info in (known.values() if name is None else [chosen])]
    problem = missing(model_path())
    if as_json:
        tell_json(rows)
        return 0
    for line in table(rows, screen_width()):
        put(line)
    put()
    tell(LEGEND)
    tell(f"$/M: dollars for a million tokens, base rates of {PRICES_AS_OF}")
    tell(f"* {chosen.name}: {chosen.why}")
    if chosen.provider != EMBEDDED and not usable(chosen):
        tell(f"  it has no key yet: set {' or '.join(default_catalogue().endpoints[chosen.provider].key_env)}")
    if problem is not None and (name is None or chosen.provider == EMBEDDED):
        tell(f"  {problem}")
    return 0


def row(info: Any, chosen: str) -> dict[str, Any]:
    """One model as plain data."""
    import msgspec

    return {
        "name": info.name,
        "provider": info.provider,
        "model": info.model,
        "chosen": info.name == chosen,
        "why": info.why,
        "usable": usable(info),
        "window_tokens": info.window_tokens,
        "max_output_tokens": info.max_output_tokens,
        "price": None if info.price is None else msgspec.to_builtins(info.price),
        "abilities": [word for field, word, _ in ABILITIES if getattr(info, field)],
    }


def usable(info: Any) -> bool:
    """Whether a key for it is there, or none is needed and it is installed."""
    from windlass.models.catalogue.endpoints import key_from
    from windlass.models.catalogue.names import EMBEDDED, default_catalogue
    from windlass.models.embedded.model import missing, model_path

    if info.provider == EMBEDDED:
        return missing(model_path()) is None
    endpoint = default_catalogue().endpoints[info.provider]
    return not endpoint.needs_key or key_from(endpoint, os.environ) is not None


def table(rows: list[dict[str, Any]], width: int) -> list[str]:
    """The rows as text: a mark, the name, whether it can be used, its window, its price and what it can do."""
    from windlass.cli.screen import number_words, tables

    lines: list[tuple[str, ...]] = [("", "MODEL", "READY", "WINDOW", "$/M IN", "$/M OUT", "CAN")]
    for entry in rows:
        price = entry["price"]
        lines.append(
            (
                "*" if entry["chosen"] else "",
                entry["name"],
                "yes" if entry["usable"] else "-",
                f"{entry['window_tokens'] // 1000}k",
                dollars(price, "input"),
                dollars(price, "output"),
                "".join(letter if word in entry["abilities"] else "-" for _, word, letter in ABILITIES),
            )
        )
    if number_words.fits(lines, width):
        return tables.table(lines, right=(3, 4, 5))
    return number_words.fitted([(f"{line[0]} {line[1]}".strip(), *line[2:]) for line in lines], width)


def dollars(price: dict[str, Any] | None, field: str) -> str:
    """Dollars per million tokens, without needless zeros; a question mark if the price is not known."""
    return "?" if price is None else f"{price.get(field, 0) / MICROS_PER_USD:g}"
