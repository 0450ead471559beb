"""What a model reads of skills: the list of those that there are, and the instructions of one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from windlass.skills.skill import Skill

ARGUMENTS_CHARS_MAX = 4_000
FILES_SHOWN_MAX = 50
VARIABLE = re.compile(r"\$(ARGUMENTS|SKILL_DIR)\b")
LIST_HEAD = (
    "# Skills\n\nThese skills hold instructions for certain tasks. When a task fits a description, call the tool "
    "`skill` with the name before you begin; its instructions follow then."
)
LIST_HEAD_FILES = (
    "# Skills\n\nThese skills hold instructions for certain tasks. When a task fits a description, read the file at "
    "its location before you begin."
)


def listed(skills: Iterable[Skill], *, by_tool: bool) -> str:
    """The names and descriptions; empty if there are none to tell of."""
    shown = [skill for skill in skills if not skill.hidden]
    if not shown:
        return ""
    lines = []
    for skill in shown:
        at = "" if by_tool or not skill.location else f"<location>{escape(skill.location, quote=False)}</location>"
        name, about = escape(skill.name, quote=False), escape(skill.description, quote=False)
        lines.append(f"<skill><name>{name}</name><description>{about}</description>{at}</skill>")
    inner = "\n".join(lines)
    return f"{LIST_HEAD if by_tool else LIST_HEAD_FILES}\n\n<available_skills>\n{inner}\n</available_skills>"


def interpolated(text: str, skill: Skill, arguments: str) -> str:
    """The instructions with `$ARGUMENTS` and `$SKILL_DIR` replaced, once: what is put in is not read again, and nothing
    is ever run."""
    values = {"ARGUMENTS": arguments[:ARGUMENTS_CHARS_MAX], "SKILL_DIR": skill.folder}
    return VARIABLE.sub(lambda match: values[match[1]], text)


def instructions(skill: Skill, arguments: str, script_timeout_ms: int) -> str:
    """A skill as it enters the context: what it says, where it is, and which files it has."""
    lines = [f'<skill name="{skill.name}">', interpolated(skill.instructions, skill, arguments)]
    if arguments and "$ARGUMENTS" not in skill.instructions:
        lines.append(f"Arguments: {arguments[:ARGUMENTS_CHARS_MAX]}")
    if skill.compatibility:
        lines.append(f"Compatibility: {skill.compatibility}")
    files = [file for file in skill.files if file.path.lower() != "skill.md"]
    if files:
        lines.append(f"The skill's folder is {skill.folder}; its paths are relative to that.")
        lines.append(f"Read its files with skill_file. Files: {', '.join(f.path for f in files[:FILES_SHOWN_MAX])}")
        if len(files) > FILES_SHOWN_MAX:
            lines.append(f"({len(files) - FILES_SHOWN_MAX} more files)")
    if any(file.kind == "script" for file in files):
        lines.append(f"Run its scripts with the shell tool, each for at most {script_timeout_ms / 1000:g} s.")
    return "\n\n".join([*(line for line in lines if line), "</skill>"])
