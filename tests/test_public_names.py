"""The public names of the package: listed once, in order, importable, and documented in the reference."""

from __future__ import annotations

import inspect
import pathlib
import re
import subprocess
import sys

import windlass

REFERENCE = pathlib.Path(__file__).parent.parent / "docs" / "reference" / "windlass.md"
HEADING = re.compile(r"^### `(\w+)`$", re.MULTILINE)
"""How the reference opens the entry of a name."""


def public_names() -> list[str]:
    return list(getattr(windlass, "__all__", []))


def test_public_names_are_listed_once():
    """Their order is the linter's (constants, classes, functions), which checks it."""
    assert len(public_names()) == len(set(public_names())), "list each name in windlass.__all__ once"


def test_each_public_name_can_be_imported():
    missing = [name for name in public_names() if not hasattr(windlass, name)]
    assert missing == [], "windlass.__all__ promises names that are not there"


def test_dir_shows_the_public_names():
    hidden = set(public_names()) - set(dir(windlass))
    assert hidden == set(), "names that are loaded on first use must be in dir(windlass) too: define __dir__"


def test_no_name_is_public_by_accident():
    defined = {name for name, value in vars(windlass).items() if not (name.startswith("_") or inspect.ismodule(value))}
    stray = defined - {"annotations"} - set(public_names())
    assert stray == set(), "give these an underscore or list them in windlass.__all__"


def test_the_reference_documents_the_public_names_and_no_others():
    documented = HEADING.findall(REFERENCE.read_text(encoding="utf-8"))
    assert sorted(documented) == sorted(public_names()), "regenerate the reference: dev/docs.py"


def test_policies_are_reached_without_an_import_of_their_own():
    script = "import windlass, sys; assert 'windlass.policies' not in sys.modules; windlass.policies.load_policy"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
