"""Skill folders, good ones and each kind of bad one: the folder's name, its SKILL.md, and what is wrong with it.

A folder may have another file than SKILL.md, or none: `file` and `text` say so."""

from __future__ import annotations

import pathlib
from typing import NamedTuple


class Case(NamedTuple):
    """One folder. `codes` are the errors that it must get; none if it fits the format."""

    folder: str
    text: str | bytes | None
    codes: tuple[str, ...] = ()
    file: str = "SKILL.md"

    def make(self, where: pathlib.Path) -> pathlib.Path:
        folder = where / self.folder
        folder.mkdir(parents=True, exist_ok=True)
        if self.text is not None:
            data = self.text if isinstance(self.text, bytes) else self.text.encode()
            (folder / self.file).write_bytes(data)
        return folder


def skill(
    name: str = "a", description: str = "Does things. Use it for things.", more: str = "", body: str = "Do.\n"
) -> str:
    """A SKILL.md with these fields, as they stand."""
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}"


GOOD = [
    Case("a", skill()),
    Case("pdf-processing", skill("pdf-processing", "Extract text from PDF files.")),
    Case("2fast", skill("2fast")),
    Case("a1-b2-c3", skill("a1-b2-c3")),
    Case("x" * 64, skill("x" * 64)),
    Case("résumé", skill("résumé")),
    Case("технический", skill("технический")),
    Case("技能", skill("技能")),
    Case("quoted", skill('"quoted"')),
    Case("single", skill("'single'")),
    Case("spaces", skill("   spaces   ")),
    Case("ﬁle", skill("file")),
    Case("desc-max", skill("desc-max", "d" * 1024)),
    Case("block", skill("block", "|\n  Line one.\n  Line two.")),
    Case("folded", skill("folded", ">-\n  Line one\n  goes on.")),
    Case("wrapped", skill("wrapped", "Line one\n  goes on.")),
    Case("quoted-colon", skill("quoted-colon", '"Use when: asked"')),
    Case("comment", skill("comment", "Does. # a remark")),
    Case("licensed", skill("licensed", more="license: Apache-2.0\n")),
    Case("license-sentence", skill("license-sentence", more="license: Proprietary. LICENSE.txt has it all\n")),
    Case("compatible", skill("compatible", more="compatibility: Requires git and jq\n")),
    Case("compatible-max", skill("compatible-max", more=f"compatibility: {'c' * 500}\n")),
    Case("compatible-empty", skill("compatible-empty", more="compatibility: ''\n")),
    Case("meta", skill("meta", more='metadata:\n  author: example-org\n  version: "1.0"\n')),
    Case("meta-numbers", skill("meta-numbers", more="metadata:\n  version: 1.0\n  beta: yes\n")),
    Case("meta-nested", skill("meta-nested", more="metadata:\n  a:\n    b: c\n")),
    Case("meta-text", skill("meta-text", more="metadata: a text\n")),
    Case("tools", skill("tools", more="allowed-tools: Bash(git:*) Bash(jq:*) Read\n")),
    Case("tools-list", skill("tools-list", more="allowed-tools:\n  - Read\n  - Grep\n")),
    Case("all-fields", skill("all-fields", more="license: MIT\ncompatibility: any\nmetadata:\n  a: b\nallowed-tools: Read\n")),
    Case("no-body", "---\nname: no-body\ndescription: Nothing follows.\n---\n"),
    Case("no-newline", "---\nname: no-newline\ndescription: It ends here.\n---"),
    Case("crlf", skill("crlf").replace("\n", "\r\n")),
    Case("rules-in-body", skill("rules-in-body", body="One\n\n---\n\nTwo\n\n---\n")),
    Case("lowercase-file", skill("lowercase-file"), file="skill.md"),
    Case("true", skill("true", "yes")),
    Case("123", skill("123", "456")),
    Case("swapped", "---\ndescription: The name comes second.\nname: swapped\n---\nx\n"),
]  # fmt: skip

BAD = [
    Case("no-file", None, ("file-missing",)),
    Case("other-file", skill("other-file"), ("file-missing",), file="README.md"),
    Case("empty", "", ("frontmatter-missing",)),
    Case("no-frontmatter", "# Just text\n", ("frontmatter-missing",)),
    Case("blank-first", "\n" + skill("blank-first"), ("frontmatter-missing",)),
    Case("bom", b"\xef\xbb\xbf" + skill("bom").encode(), ("frontmatter-missing",)),
    Case("not-closed", "---\nname: not-closed\ndescription: x\n", ("frontmatter-open",)),
    Case("latin", skill("latin", "caf\u00e9").encode("latin-1"), ("file-encoding",)),
    Case("nothing-inside", "---\n---\nbody\n", ("frontmatter-no-mapping",)),
    Case("a-list", "---\n- name\n- description\n---\nbody\n", ("frontmatter-no-mapping",)),
    Case("a-text", "---\njust words\n---\nbody\n", ("frontmatter-no-mapping",)),
    Case("colon", skill("colon", "Use when: asked"), ("yaml-invalid",)),
    Case("at-sign", skill("at-sign", "@mention"), ("yaml-invalid",)),
    Case("backtick", skill("backtick", "`code`"), ("yaml-invalid",)),
    Case("open-quote", skill("open-quote", '"not closed'), ("yaml-invalid",)),
    Case("tab", "---\nname: tab\n\tdescription: x\n---\n", ("yaml-invalid",)),
    Case("flow-list", skill("flow-list", more="allowed-tools: [Read, Grep]\n"), ("yaml-flow",)),
    Case("flow-map", skill("flow-map", more="metadata: {a: b}\n"), ("yaml-flow",)),
    Case("anchor", skill("anchor", "&x text", more="license: *x\n"), ("yaml-anchor",)),
    Case("tagged", skill("tagged", "!!str text"), ("yaml-tag",)),
    Case("python-tag", skill("python-tag", "!!python/object/apply:os.system ['true']"), ("yaml-tag",)),
    Case("twice", skill("twice", more="name: twice\n"), ("yaml-duplicate",)),
    Case("second-document", "---\nname: a\n...\nb: c\n---\nx\n", ("yaml-invalid",)),
    Case("indented", skill("indented", more="metadata:\n    a: b\nlicense:\n  c: d\n"), ("yaml-indentation",)),
    Case("no-name", "---\ndescription: x\n---\n", ("name-missing",)),
    Case("name-empty", skill("''"), ("name-empty",)),
    Case("name-blank", skill('"  "'), ("name-empty",)),
    Case("name-list", skill("\n  - a"), ("name-empty",)),
    Case("x" * 65, skill("x" * 65), ("name-too-long",)),
    Case("Upper", skill("Upper"), ("name-not-lowercase",)),
    Case("-edge", skill("-edge"), ("name-hyphen-edge",)),
    Case("edge-", skill("edge-"), ("name-hyphen-edge",)),
    Case("two--hyphens", skill("two--hyphens"), ("name-hyphens",)),
    Case("under_score", skill("under_score"), ("name-characters",)),
    Case("with space", skill("with space"), ("name-characters",)),
    Case("dot.ted", skill("dot.ted"), ("name-characters",)),
    Case("slash", skill("a/b"), ("name-characters", "name-directory-mismatch")),
    Case("up", skill("../up"), ("name-characters", "name-directory-mismatch")),
    Case("emoji", skill("\U0001f600"), ("name-characters", "name-directory-mismatch")),
    Case("other-folder", skill("this-name"), ("name-directory-mismatch",)),
    Case("no-description", "---\nname: no-description\n---\nx\n", ("description-missing",)),
    Case("description-empty", skill("description-empty", "''"), ("description-empty",)),
    Case("description-blank", skill("description-blank", '"   "'), ("description-empty",)),
    Case("description-list", skill("description-list", "\n  - a\n  - b"), ("description-empty",)),
    Case("description-long", skill("description-long", "d" * 1025), ("description-too-long",)),
    Case("compatibility-long", skill("compatibility-long", more=f"compatibility: {'c' * 501}\n"), ("compatibility-too-long",)),
    Case("compatibility-list", skill("compatibility-list", more="compatibility:\n  - git\n"), ("compatibility-not-text",)),
    Case("strange-field", skill("strange-field", more="version: 1.0\n"), ("field-unexpected",)),
    Case("two-strange", skill("two-strange", more="tags: a\nmodel: b\n"), ("field-unexpected", "field-unexpected")),
    Case("camel", skill("camel", more="allowedTools: Read\n"), ("field-unexpected",)),
    Case("all-wrong", "---\nName: x\n---\n", ("field-unexpected", "name-missing", "description-missing")),
]  # fmt: skip

CORPUS = [*GOOD, *BAD]
