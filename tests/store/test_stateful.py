"""Every store answers any sequence of calls as a plain model of it does."""

from __future__ import annotations

import pathlib
import tempfile

import pytest

from tests.store.stores import SUBJECTS, Subject
from windlass.testing.store_kit import StoreCase
from windlass.testing.store_kit.stateful import check_against_model


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_store_is_as_its_model(subject: Subject, memory_path: pathlib.Path):
    def make_case() -> StoreCase:
        return subject.case(pathlib.Path(tempfile.mkdtemp(dir=memory_path)))

    check_against_model(make_case, examples=30 if subject.capabilities.durable else 100, steps=30)
