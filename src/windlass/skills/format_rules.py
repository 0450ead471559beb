"""The rules of the skill format: what may stand in each field of a SKILL.md.

The format is described at agentskills.io/specification. What its reference validator refuses is an error here and
nothing else is; what the text advises besides is a warning."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from .diagnostic import Diagnostic, error, warning
from .frontmatter import FIELDS, Frontmatter, Plain

NAME_CHARS_MAX = 64
DESCRIPTION_CHARS_MAX = 1024
COMPATIBILITY_CHARS_MAX = 500
BODY_LINES_ADVISED = 500

HARMLESS = frozenset({
    "name-directory-mismatch", "name-too-long", "field-unexpected", "description-too-long", "compatibility-too-long",
    "compatibility-not-text",
})  # fmt: skip
"""Errors in spite of which a skill can be loaded: they are about form, and are told as warnings then."""


def judged(document: Frontmatter, folder: str) -> list[Diagnostic]:
    """What is to be said of a SKILL.md in a folder of some name. Without an error it fits the format."""
    return [
        *_unexpected(document),
        *_name(document, folder),
        *_description(document),
        *_compatibility(document),
        *_others(document),
    ]


def normal(name: str) -> str:
    """A name as names are compared."""
    return unicodedata.normalize("NFKC", name.strip())


def _unexpected(document: Frontmatter) -> Iterator[Diagnostic]:
    for field in document.fields:
        if field not in FIELDS:
            fix = f"put it beneath 'metadata'; fields are {', '.join(FIELDS)}"
            yield _wrong(document, field, "field-unexpected", f"the format has no field {field!r}", fix)


def _name(document: Frontmatter, folder: str) -> Iterator[Diagnostic]:
    given = document.fields.get("name")
    if not _says(given):
        code = "name-missing" if given is None else "name-empty"
        yield _wrong(document, "name", code, "a skill needs a name", f"add 'name: {folder}'")
        return
    name = normal(str(given))
    for code, held, told, fix in _name_rules(name, folder):
        if held:
            yield _wrong(document, "name", code, told, fix)


def _name_rules(name: str, folder: str) -> Iterator[tuple[str, bool, str, str]]:
    """Each rule of names: its code, whether it is broken, and what to say then."""
    strange = " ".join(sorted({repr(char) for char in name if not (char.isalnum() or char == "-")}))
    long = f"a name has at most {NAME_CHARS_MAX} characters, this one has {len(name)}"
    yield "name-too-long", len(name) > NAME_CHARS_MAX, long, "shorten it, and the folder's name with it"
    yield "name-not-lowercase", name != name.lower(), f"the name {name!r} is not lowercase", f"write {name.lower()!r}"
    at_edge = name.startswith("-") or name.endswith("-")
    yield "name-hyphen-edge", at_edge, f"the name {name!r} begins or ends with a hyphen", "leave that hyphen out"
    yield "name-hyphens", "--" in name, f"the name {name!r} has two hyphens in a row", "keep one of them"
    made_of = f"a name is made of letters, digits and hyphens, not of {strange}"
    yield "name-characters", bool(strange), made_of, "write hyphens between words"
    other = f"the name {name!r} is not that of its folder, {folder!r}"
    yield "name-directory-mismatch", normal(folder) != name, other, "rename one of them"


def _description(document: Frontmatter) -> Iterator[Diagnostic]:
    given = document.fields.get("description")
    if not _says(given):
        code = "description-missing" if given is None else "description-empty"
        fix = "say in a sentence what it does and when to use it"
        yield _wrong(document, "description", code, "a skill needs a description", fix)
    elif len(str(given)) > DESCRIPTION_CHARS_MAX:
        told = f"a description has at most {DESCRIPTION_CHARS_MAX} characters, this one has {len(str(given))}"
        yield _wrong(document, "description", "description-too-long", told, "move details into the body")


def _compatibility(document: Frontmatter) -> Iterator[Diagnostic]:
    field = "compatibility"
    given = document.fields.get(field)
    if given is None:
        return
    if not isinstance(given, str):
        yield _wrong(document, field, "compatibility-not-text", "compatibility is a text", "write a sentence")
    elif len(given) > COMPATIBILITY_CHARS_MAX:
        told = f"compatibility has at most {COMPATIBILITY_CHARS_MAX} characters, this one has {len(given)}"
        yield _wrong(document, field, "compatibility-too-long", told, "shorten it")
    elif not given.strip():
        yield _odd(document, field, "compatibility-empty", "compatibility says nothing", "leave it out")


def _others(document: Frontmatter) -> Iterator[Diagnostic]:
    """What the reference validator lets pass and the text of the format does not mean."""
    fields = document.fields
    if not isinstance(fields.get("license", ""), str):
        yield _odd(document, "license", "license-not-text", "license is a text", "name the license")
    metadata = fields.get("metadata", {})
    if not isinstance(metadata, dict):
        told = "metadata is a mapping; it is left out"
        yield _odd(document, "metadata", "metadata-no-mapping", told, "write 'key: value' beneath it")
    elif nested := [key for key, value in metadata.items() if not isinstance(value, str)]:
        told = f"metadata maps texts to texts; {nested[0]!r} is left out"
        yield _odd(document, "metadata", "metadata-nested", told, "flatten it")
    if not isinstance(fields.get("allowed-tools", ""), str):
        fix = "write the names in one line, with spaces between them"
        yield _odd(document, "allowed-tools", "allowed-tools-not-text", "allowed-tools is one text", fix)
    if document.body.count("\n") >= BODY_LINES_ADVISED:
        told = f"the body has more than {BODY_LINES_ADVISED} lines, all of which the model reads"
        yield _odd(document, "", "body-long", told, "move details into files of their own")
    if not document.body:
        yield _odd(document, "", "body-empty", "there are no instructions", "write them behind the frontmatter")


def _wrong(document: Frontmatter, field: str, code: str, told: str, fix: str) -> Diagnostic:
    return error(code, told, fix, field=field, line=document.lines.get(field, 1))


def _odd(document: Frontmatter, field: str, code: str, told: str, fix: str) -> Diagnostic:
    return warning(code, told, fix, field=field, line=document.lines.get(field, 1))


def _says(value: Plain | None) -> bool:
    return isinstance(value, str) and bool(value.strip())
