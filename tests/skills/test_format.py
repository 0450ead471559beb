"""The skill format, judged folder by folder, and as its reference validator judges."""

from __future__ import annotations

import os

import pytest
import skills_ref  # type: ignore[import-untyped]

from tests.skills.corpus import BAD, CORPUS, GOOD, Case, skill
from windlass.skills.skill import allowed_of, examined

CASES = [pytest.param(case, id=case.folder[:40]) for case in CORPUS]


def refused_by_reference(folder) -> bool:
    """A file that it cannot even decode makes the reference raise; that is no skill either."""
    try:
        return bool(skills_ref.validate(folder))
    except UnicodeDecodeError:
        return True


def test_the_corpus_is_of_good_folders_and_of_every_kind_of_bad_one():
    assert len(GOOD) >= 30
    assert len(BAD) >= 40
    assert len({case.folder for case in CORPUS}) == len(CORPUS)


@pytest.mark.parametrize("case", CASES)
def test_a_folder_is_judged_as_the_reference_validator_judges_it(case: Case, tmp_path):
    folder = case.make(tmp_path)
    assert examined(str(folder)).valid is not refused_by_reference(folder)


@pytest.mark.parametrize("case", CASES)
def test_each_error_has_a_code_a_place_and_a_fix(case: Case, tmp_path):
    found = examined(str(case.make(tmp_path)))
    errors = [each for each in found.diagnostics if each.severity == "error"]
    assert tuple(each.code for each in errors) == case.codes
    for each in errors:
        assert each.fix
        assert each.path.startswith(str(tmp_path))
        assert str(each).startswith(each.place)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("---\nname: lines\ndescription: x\nversion: 1\n---\n", 4),
        ("---\nname: lines\ndescription: a: b\n---\n", 3),
        ("---\ndescription: x\nname: Other\n---\n", 3),
        ("---\nname: lines\ndescription: x\nmetadata:\n  a: b\n  a: c\n---\n", 6),
        (b"---\nname: lines\ndescription: \xff\n---\n", 3),
    ],
)
def test_an_error_names_the_line_at_which_it_stands(text, line, tmp_path):
    folder = Case("lines", text).make(tmp_path)
    first = next(each for each in examined(str(folder)).diagnostics if each.severity == "error")
    assert first.place == f"{folder / 'SKILL.md'}:{line}"


def test_what_is_written_is_what_is_read(tmp_path):
    text = skill("whole", "What it is.", more="license: MIT\ncompatibility: git\nmetadata:\n  a: b\nallowed-tools: Read Bash(git:*)\n", body="# Title\n\nDo it.\n")  # fmt: skip
    folder = Case("whole", text).make(tmp_path)
    (folder / "scripts").mkdir()
    (folder / "scripts" / "run.sh").write_text("true\n")
    (folder / "scripts" / "run.sh").chmod(0o755)
    (folder / "references").mkdir()
    (folder / "references" / "more.md").write_text("more\n")
    found = examined(str(folder)).skill
    assert found is not None
    assert (found.name, found.description, found.license, found.compatibility) == ("whole", "What it is.", "MIT", "git")
    assert (found.metadata, found.allowed_tools) == ({"a": "b"}, ("Read", "Bash(git:*)"))
    assert found.instructions == "# Title\n\nDo it."
    assert [(file.path, file.kind, file.runs) for file in found.files] == [
        ("SKILL.md", "other", False),
        ("references/more.md", "reference", False),
        ("scripts/run.sh", "script", True),
    ]


@pytest.mark.parametrize("code", ["name-directory-mismatch", "field-unexpected", "description-too-long", "name-too-long"])  # fmt: skip
def test_a_skill_that_is_wrong_in_form_alone_can_be_loaded_with_a_remark(code, tmp_path):
    case = next(case for case in BAD if case.codes == (code,))
    found = examined(str(case.make(tmp_path)))
    assert not found.valid
    assert found.skill is not None
    assert [each.code for each in found.skill.diagnostics if each.severity == "error"] == [code]


@pytest.mark.parametrize("code", ["name-not-lowercase", "description-missing", "yaml-invalid", "file-missing"])
def test_a_skill_without_a_sound_name_or_a_description_cannot(code, tmp_path):
    case = next(case for case in BAD if case.codes == (code,))
    assert examined(str(case.make(tmp_path))).skill is None


def test_the_digest_is_of_the_whole_folder(tmp_path):
    folder = Case("known", skill("known")).make(tmp_path)
    (folder / "data").mkdir()
    (folder / "data" / "a.txt").write_text("a")
    seen = [digest(folder)]
    (folder / "data" / "a.txt").write_text("b")
    seen.append(digest(folder))
    (folder / "data" / "a.txt").rename(folder / "data" / "c.txt")
    seen.append(digest(folder))
    (folder / "data" / "c.txt").chmod(0o755)
    seen.append(digest(folder))
    assert len(set(seen)) == 4
    os.utime(folder / "SKILL.md", (1, 1))
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("x")
    assert digest(folder) == seen[-1]


def digest(folder) -> str:
    found = examined(str(folder)).skill
    assert found is not None
    return found.digest


@pytest.mark.parametrize("kind", ["link", "link_to_folder", "pipe", "many", "large", "deep"])
def test_a_folder_that_is_no_plain_tree_of_files_is_refused(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("windlass.skills.folder.FILES_MAX", 5)
    monkeypatch.setattr("windlass.skills.folder.FOLDER_BYTES_MAX", 1000)
    folder = Case("odd", skill("odd")).make(tmp_path)
    (tmp_path / "secret").write_text("secret")
    match kind:
        case "link":
            (folder / "a").symlink_to(tmp_path / "secret")
        case "link_to_folder":
            (folder / "a").symlink_to(tmp_path)
        case "pipe":
            os.mkfifo(folder / "a")
        case "many":
            for number in range(6):
                (folder / f"{number}").write_text("")
        case "large":
            (folder / "a").write_bytes(bytes(2000))
        case "deep":
            folder.joinpath(*["d"] * 14).mkdir(parents=True)
    found = examined(str(folder))
    assert found.skill is None
    codes = {"many": "folder-large", "large": "folder-large", "deep": "folder-deep"}
    assert [each.code for each in found.diagnostics] == [codes.get(kind, "file-kind")]


def test_a_skill_file_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_text(skill("linked"))
    folder = Case("linked", None).make(tmp_path)
    (folder / "SKILL.md").symlink_to(tmp_path / "elsewhere")
    found = examined(str(folder))
    assert found.skill is None
    assert [each.code for each in found.diagnostics] == ["file-unreadable"]


def test_allowed_tools_are_read_with_spaces_commas_or_as_a_list():
    assert allowed_of("Bash(git:*) Read") == ("Bash(git:*)", "Read")
    assert allowed_of("Read, Write,Grep") == ("Read", "Write", "Grep")
    assert allowed_of(["Read", "Bash(git add:*)"]) == ("Read", "Bash(git add:*)")
    assert allowed_of("") == ()
