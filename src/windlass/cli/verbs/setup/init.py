"""`windlass init`: a small project to start from. Writes three files, and never over one that is there."""

from __future__ import annotations

import argparse

EXAMPLES = """examples:
  windlass init                      in this folder
  windlass init clerk                in a new folder

Writes agent.py (an agent with a tool), test_agent.py (a test that needs no model) and README.md.
"""

AGENT = '''"""An agent with one tool. Try it with: windlass chat --agent agent.py:agent"""

import windlass


@windlass.tool(contract="pure")
def word_count(text: str) -> int:
    "Count the words of a text."
    return len(text.split())


agent = windlass.Agent(
    "counter",
    instructions="Help with texts. Count words with the tool, never by yourself.",
    tools=[word_count],
    budget=windlass.Budget(turns=10),
)
'''

TEST = '''"""The agent, tested without a model: exact, offline and quick. Run it with: pytest"""

from dataclasses import replace

from agent import agent
from windlass.testing import ScriptedModel, call


def test_agent_counts_with_its_tool():
    model = ScriptedModel([call("word_count", text="one two three"), "Three words."])
    result = replace(agent, model=model).run_sync("How many words: one two three?")
    assert result.text == "Three words."
    assert "3" in str(model.requests[1].items[-1])
'''

README = """# An agent

    windlass chat --agent agent.py:agent       talk with it
    windlass run --agent agent.py:agent '...'  one prompt
    windlass ps                                what it did and does
    pytest                                     its test, without a model (pip install pytest)
"""
FILES = {"agent.py": AGENT, "test_agent.py": TEST, "README.md": README}


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("folder", metavar="FOLDER", nargs="?", default=".", help="where to (else this folder)")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    import pathlib

    from windlass.cli.shell_lines import word
    from windlass.cli.terminal.text import put
    from windlass.events.errors import UsageError

    folder = pathlib.Path(args.folder)
    there = [name for name in FILES if (folder / name).exists()]
    if there:
        raise UsageError(f"{str(folder / there[0])!r} exists already: name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in FILES.items():
            (folder / name).write_text(text, encoding="utf-8")
            put(f"wrote {folder / name}")
    except OSError as error:
        raise UsageError(f"cannot write to {str(folder)!r}: {error.strerror or error}") from None
    put(f"next\n  windlass chat --agent {word(str(folder / 'agent.py'))}:agent")
    put(f"  pip install pytest && pytest {word(str(folder))}")
    return 0
