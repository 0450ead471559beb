"""The first pages a newcomer reads are true: their commands exist, their links lead somewhere. That their code runs is
seen by tests/test_docs_run.py."""

from __future__ import annotations

import os
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
README_LINES_MAX = 70
"""About one screen."""

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)")


def page_text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return [source for found, source in BLOCK.findall(page_text(page)) if found == language]


@pytest.mark.parametrize("page", PAGES)
def test_commands_on_the_page_exist(page):
    for line in "".join(blocks(page, "sh")).splitlines():
        command = line.split()[0]
        if command.startswith("./"):
            assert os.access(ROOT / command, os.X_OK), f"{page}: {command} cannot be run"


@pytest.mark.parametrize("page", PAGES)
def test_links_within_the_repository_lead_somewhere(page):
    gone = [link for link in LINK.findall(page_text(page)) if "://" not in link and not (ROOT / link).exists()]
    assert gone == [], f"{page} links to files that are not there"


def test_readme_fits_on_one_screen_and_shows_python_and_the_test_command():
    assert len(page_text("README.md").splitlines()) <= README_LINES_MAX
    assert blocks("README.md", "python")
    commands = [line.split()[0] for line in "".join(blocks("README.md", "sh")).splitlines()]
    assert commands == ["./demo", "./check"], "the README shows the two commands that do everything"


def test_changelog_opens_with_what_is_unreleased():
    headings = re.findall(r"^## (.+)$", page_text("CHANGELOG.md"), re.MULTILINE)
    assert headings[0] == "Unreleased"
