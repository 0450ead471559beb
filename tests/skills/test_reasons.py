"""Who a skill is and why one cannot be had: keys, lineage, remaps, aliases, and each reason out of real files."""

from __future__ import annotations

import json

import msgspec
import pytest
from dev.runs.skills import LOST, ROTATED, SPLIT, wrong_sources

from tests.skills.corpus import skill
from windlass.events.skills import AnySkillFailure, SkillFailureUnknown, SkillKey
from windlass.skills.catalogue import Catalogue, Failed, catalogue, remember_sources
from windlass.skills.config import Skills
from windlass.skills.skill import Skill
from windlass.skills.trust import TrustRecords

REASONS = {
    "not_found": f"no skill {SPLIT}/missing",
    "capability_unavailable": f"skill {SPLIT}/needy needs 'gpu', which this session does not have",
    "load": "is no folder: give one that exists",
    "parse": "SKILL.md:3: error: the frontmatter is not YAML",
    "source_uuid_collision": f"source {SPLIT} is claimed by",
    "source_uuid_mutation_without_lineage": f"was {ROTATED} and calls itself {LOST}, without a lineage",
    "missing_skill_remaps": "lineage 'e1' (split) does not say what became of each skill",
    "remap_without_lineage": f"{LOST}/a is mapped to {ROTATED}/a, and no lineage joins their sources",
    "unknown_skill_alias": "no skill is called 'nobody'",
    "remap_cycle": f"the mappings of {SPLIT}/a lead in a circle",
    "unknown": "skills.json",
}


def tag(reason: AnySkillFailure) -> str:
    return str(reason.__struct_config__.tag)


@pytest.fixture(scope="module")
def wrong(tmp_path_factory) -> Catalogue:
    place = tmp_path_factory.mktemp("wrong")
    records = TrustRecords(str(place / "records"))
    folders = wrong_sources(place / "sources")
    config = Skills(scan=tuple(map(str, folders)), skip_default_paths=True)
    remember_sources(records, catalogue(config, records=records))
    (folders[3] / "skills.json").write_text(json.dumps({"source_uuid": LOST}))
    return catalogue(config, records=records)


@pytest.mark.parametrize("name", REASONS)
def test_each_reason_is_raised_by_real_files(name, wrong: Catalogue):
    asked = {"not_found": f"{SPLIT}/missing", "capability_unavailable": "needy", "unknown_skill_alias": "nobody"}
    if name in asked:
        answer = wrong.find(asked[name])
        assert isinstance(answer, Failed)
        found = [answer.reason]
    else:
        found = [failed.reason for failed in wrong.failures if tag(failed.reason) == name]
    assert [tag(reason) for reason in found[:1]] == [name]
    assert REASONS[name] in str(found[0])
    assert "\n" not in str(found[0])
    assert msgspec.json.decode(msgspec.json.encode(found[0]), type=AnySkillFailure) == found[0]


def test_there_are_eleven_reasons_and_the_last_says_something_even_without_a_message():
    assert len(REASONS) == 11
    assert str(SkillFailureUnknown()) == "for a reason that is not known"


def test_a_source_that_says_how_it_became_another_one_is_taken(tmp_path):
    records = TrustRecords(str(tmp_path / "records"))
    place = tmp_path / "source"
    (place / "a").mkdir(parents=True)
    (place / "a" / "SKILL.md").write_text(skill("a"))
    (place / "skills.json").write_text(json.dumps({"source_uuid": SPLIT}))
    config = Skills(scan=(str(place),), skip_default_paths=True)
    remember_sources(records, catalogue(config, records=records))
    lineage = {"event_id": "e", "kind": "rotate", "sources": [SPLIT], "targets": [ROTATED]}
    remap = {"source": {"source_uuid": SPLIT, "skill_name": "old"}, "target": {"source_uuid": ROTATED, "skill_name": "a"}}  # fmt: skip
    says = {"source_uuid": ROTATED, "lineage": [lineage], "remaps": [remap], "aliases": {"first": "a"}}
    (place / "skills.json").write_text(json.dumps(says))
    found = catalogue(config, records=records)
    assert found.failures == ()
    for reference in ("a", "first", f"{ROTATED}/a", f"{SPLIT}/old"):
        skill_found = found.find(reference)
        assert isinstance(skill_found, Skill)
        assert str(skill_found.key) == f"{ROTATED}/a"


def test_a_key_is_its_source_and_its_name(tmp_path):
    key = SkillKey(source_uuid=SPLIT, skill_name="a")
    assert str(key) == f"{SPLIT}/a"
    assert msgspec.json.encode(key) == f'{{"source_uuid":"{SPLIT}","skill_name":"a"}}'.encode()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "SKILL.md").write_text(skill("a"))
    config = Skills(scan=(str(tmp_path),), skip_default_paths=True)
    records = TrustRecords(str(tmp_path / "records"))
    first, second = (catalogue(config, records=records).skills[0].key for _ in range(2))
    assert first == second
