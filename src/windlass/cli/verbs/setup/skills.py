"""`windlass skills`: which skills there are, what one says, whether a folder fits the format, and trust."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.skills.catalogue import Catalogue
    from windlass.skills.skill import Skill
    from windlass.skills.trust import Record, TrustRecords

EXAMPLES = """examples:
  windlass skills list                             those of the default folders, and of this one if it is trusted
  windlass skills list ./skills --trust-workspace  with those of a folder
  windlass skills show pdf ./skills                what one says, its files, and what is to be said of it
  windlass skills check ./skills/pdf               does it fit the format? file, line and fix of what does not
  windlass skills trust ./skills/pdf               show what changed since it was trusted, and trust it as it is
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    words = ("list", "show", "check", "trust")
    parser.add_argument("what", metavar="WHAT", choices=words, help="list, show, check or trust")
    parser.add_argument(
        "more", metavar="MORE", nargs="*", help="of show: NAME; of check: folders; else folders of skills"
    )
    parser.add_argument("--trust-workspace", action="store_true", help="take the skills of this folder too")
    parser.add_argument("--yes", action="store_true", help="of trust: ask nothing")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    if args.what == "list":
        return list_skills(args)
    if args.what == "show":
        return show(args)
    return check(args) if args.what == "check" else trust(args)


def _found(args: argparse.Namespace, folders: list[str]) -> Catalogue:
    from windlass.skills.catalogue import catalogue
    from windlass.skills.config import Skills

    return catalogue(Skills(scan=tuple(folders)), workspace=os.getcwd(), trusted=args.trust_workspace)


def list_skills(args: argparse.Namespace) -> int:
    """Lists what there is, and says what is left out and why."""
    from windlass.cli.screen.number_words import table
    from windlass.cli.terminal.text import one_line, put, tell_json
    from windlass.cli.terminal.visible_text import spelt
    from windlass.skills.trust import TrustRecords

    catalogue, records = _found(args, args.more), TrustRecords()
    if args.json:
        told = [
            _as_json(skill) | {"trust": _standing(records, skill)} for skill in (*catalogue.skills, *catalogue.changed)
        ]
        tell_json({"skills": told, "remarks": [str(each) for each in catalogue.diagnostics]})
        return 0
    rows = [("NAME", "FROM", "TRUST", "WHAT")] if catalogue.skills or catalogue.changed else []
    for skill in (*catalogue.skills, *catalogue.changed):
        about = one_line(spelt(skill.description), 80)
        rows.append((spelt(skill.name), skill.place, _standing(records, skill), about))
    for line in table(rows):
        put(line)
    if not rows:
        put("no skills: give a folder, or put some into ~/.agents/skills")
    for remark in catalogue.diagnostics:
        put(spelt(str(remark)))
    for failed in catalogue.failures:
        put(spelt(f"{failed.reference}: {failed.reason}"))
    return 0


def _standing(records: TrustRecords, skill: Skill) -> str:
    try:
        return "code" if skill.place in ("inline", "package") else records.standing(skill)
    except OSError:
        return "unread"


def _readable(records: TrustRecords, skill: Skill) -> Record | None:
    """The record of a skill; None also if it cannot be read: then a person is shown all of it as new."""
    try:
        return records.of(skill.key)
    except OSError:
        return None


def _as_json(skill: Skill) -> dict[str, Any]:
    return {
        "name": skill.name,
        "key": str(skill.key),
        "description": skill.description,
        "from": skill.place,
        "location": skill.location,
        "digest": skill.digest,
        "allowed_tools": list(skill.allowed_tools) if skill.allowed_tools is not None else None,
        "files": [file.path for file in skill.files],
    }


def show(args: argparse.Namespace) -> int:
    """Shows one skill whole."""
    from windlass.cli.terminal.text import put, tell_json
    from windlass.cli.terminal.visible_text import spelt
    from windlass.events.errors import UsageError

    if not args.more:
        raise UsageError("'skills show' takes the name of a skill; 'windlass skills list' lists them")
    catalogue = _found(args, args.more[1:])
    skill = next(
        (each for each in (*catalogue.skills, *catalogue.changed) if args.more[0] in (each.name, str(each.key))), None
    )
    if skill is None:
        there = ", ".join(each.name for each in catalogue.skills) or "none"
        raise UsageError(f"no skill {args.more[0]!r}: there are {there}")
    if args.json:
        tell_json(_as_json(skill) | {"instructions": skill.instructions})
        return 0
    tools = "any" if skill.allowed_tools is None else ", ".join(skill.allowed_tools) or "none"
    for label, value in (
        ("name", skill.name),
        ("key", str(skill.key)),
        ("digest", skill.digest),
        ("location", skill.location),
        ("license", skill.license),
        ("tools", tools),
        ("files", ", ".join(file.path for file in skill.files)),
        ("about", skill.description),
    ):
        if value:
            put(f"{label}: {spelt(value)}")
    put("")
    for line in skill.instructions.splitlines():
        put(spelt(line))
    return 0


def check(args: argparse.Namespace) -> int:
    """Judges folders by the format; 1 if one does not fit."""
    from windlass.cli.terminal.text import put, tell_json
    from windlass.cli.terminal.visible_text import spelt
    from windlass.events.errors import UsageError
    from windlass.skills.skill import examined

    if not args.more:
        raise UsageError("'skills check' takes folders that hold a SKILL.md")
    results = [examined(folder) for folder in args.more]
    if args.json:
        tell_json([{"folder": r.folder, "valid": r.valid, "remarks": [str(d) for d in r.diagnostics]} for r in results])
    else:
        for result in results:
            for remark in result.diagnostics:
                put(spelt(str(remark)))
            put(f"{spelt(result.folder)}: {'fits the format' if result.valid else 'does not fit the format'}")
    return 0 if all(result.valid for result in results) else 1


def trust(args: argparse.Namespace) -> int:
    """Shows what is other than what was trusted, and trusts it once somebody says so."""
    from windlass.cli import identity
    from windlass.cli.terminal.text import put
    from windlass.cli.terminal.visible_text import spelt
    from windlass.events.errors import UsageError
    from windlass.skills.trust import TrustRecords, changes

    if not args.more:
        raise UsageError("'skills trust' takes the folders of skills")
    records = TrustRecords()
    for folder in args.more:
        for skill in _at(folder, args):
            if _standing(records, skill) == "trusted":
                put(f"{spelt(skill.name)}: trusted already, {skill.digest}")
                continue
            for line in changes(_readable(records, skill), skill):
                put(spelt(line))
            if not args.yes and not _agreed(skill):
                put(f"{spelt(skill.name)}: not trusted")
                return 1
            records.trust(skill, by=identity.actor())
            put(f"{spelt(skill.name)}: trusted, {skill.digest}")
    return 0


def _at(folder: str, args: argparse.Namespace) -> list[Skill]:
    """The skills of a folder, as a search that finds them knows them: one that is a skill lies in its source."""
    from windlass.events.errors import UsageError

    real = os.path.realpath(folder)
    inside = os.path.exists(os.path.join(real, "SKILL.md"))
    catalogue = _found(args, [os.path.dirname(real), real] if inside else [real])
    there = [*catalogue.skills, *catalogue.changed]
    chosen = [each for each in there if each.folder == real or os.path.dirname(each.folder) == real]
    if not chosen:
        why = "; ".join(str(each) for each in catalogue.diagnostics) or "it holds no SKILL.md"
        raise UsageError(f"no skill in {folder!r}: {why}")
    return chosen


def _agreed(skill: Skill) -> bool:
    import sys

    if not sys.stdin.isatty():
        return False
    return input(f"trust {skill.name!r} as it is now? [y/N] ").strip().lower() in ("y", "yes")
