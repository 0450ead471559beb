"""Every store passes every check of the kit that its declared capabilities call for."""

from __future__ import annotations

import pathlib

import pytest

from tests.store.stores import SUBJECTS, Subject
from windlass.testing.store_kit import Check, applicable

PAIRS = [(subject, check) for subject in SUBJECTS for check in applicable(subject.capabilities)]


@pytest.mark.parametrize(("subject", "check"), PAIRS, ids=[f"{s.name}-{c.name}" for s, c in PAIRS])
async def test_store_keeps_the_promise(subject: Subject, check: Check, tmp_path: pathlib.Path):
    await check.run(subject.case(tmp_path))
