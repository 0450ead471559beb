"""What `--tools coding` stands for: the tools of a coding agent, how it is told to work, and what it may do
unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.events.values.policy import Policy

PRESET = "coding"
TOOLS = (
    *("list", "read", "glob", "grep"),
    *("write", "edit", "patch", "make_directory", "move", "remove"),
    *("shell", "jobs", "job_output", "kill_job", "todo"),
)
INSTRUCTIONS = """You work on the software in the current folder, with its owner.

- Look before you change: find the files that matter with grep and glob, read them, and follow their style.
- Keep a list of todos for work of more than a few steps.
- Change files with edit or patch, and only what the task needs. Use write for new files.
- Prove what you claim: run the tests or the program after a change, and read what they say. If something cannot be run
  here, say so.
- Commands run without a terminal and keep no state between calls. Say why with each (intention). Servers and long
  builds go to the background (background=true); you are told when they end.
- Never touch what lies outside of this folder, and never print or copy secrets.
- If a call is denied, do not try to get the same by another way: ask, or explain what you need.
- End with what you changed, how you checked it, and what is left, in few words.
"""


def coding_policy() -> Policy:
    """What runs unasked: changes within the folder, and commands if a sandbox holds them to it."""
    from windlass.runtime.api.policy import SANDBOXED

    return SANDBOXED
