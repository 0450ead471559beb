"""The verbs of the command line, one module each, in the groups of `windlass --help`. Imports none of them.

A module has `configure(parser)`, which imports nothing of the runtime, and `run(args)`, which gives the exit code.
"""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """One verb: the module that does it, and one line of help."""

    module: str
    summary: str


GROUPS: dict[str, tuple[str, dict[str, str]]] = {
    "work with an agent": (
        "work",
        {
            "run": "give an agent something to do, and watch it",
            "chat": "talk with an agent",
            "flow": "check a workflow, carry it out, or look at one: check, run, show",
            "machine": "check a state machine, show where one stands, draw it: check, show, diagram",
            "schedule": "begin work at set times: add, list, show, pause, resume, remove, run-now, serve",
            "serve": "serve agents and their sessions over HTTP",
            "acp": "be the agent of an editor that speaks the Agent Client Protocol",
            "copilot": "serve agents to clients of the GitHub Copilot SDK",
            "duet": "run the turns of an agent for a caller of Duet's protocol, over stdio",
            "demo": "run an agent on the embedded model, kept in SQLite, printed live",
        },
    ),
    "look at sessions": (
        "look",
        {
            "ps": "list sessions: state, waiting for what, age, cost",
            "logs": "show a session's log as a timeline, and follow it",
            "show": "show one session, what it waits for and how to answer",
            "jobs": "list the background jobs of a session, read or end one",
            "files": "show which files a session's tools changed, and how",
            "inspect": "show what the model sees at a point of the log",
            "cost": "show what sessions have used",
        },
    ),
    "answer and steer": (
        "steer",
        {
            "approve": "allow a call that waits for a person",
            "deny": "refuse a call that waits for a person",
            "answer": "answer a question of an agent",
            "settle": "say what became of a call whose outcome is unknown",
            "interrupt": "stop what a session is doing; it may continue later",
            "cancel": "stop what a session is doing and close it for good",
            "wake": "continue a session now",
            "signal": "tell a session that something happened outside",
            "queue": "show or change the prompts that wait",
            "grants": "show or take back standing approvals",
            "select": "have a session run by a specialist of its agent",
            "declassify": "take a label away from a session, with a reason",
        },
    ),
    "go back or branch off": (
        "branch",
        {
            "fork": "begin a new session from a point of another",
            "rewind": "go back to an earlier history",
            "diff": "compare what was said in two sessions",
            "replay": "run a session again with another model or policy, and compare",
        },
    ),
    "keep the logs": (
        "keep",
        {
            "verify": "check that logs are what was written",
            "anchor": "note where logs end, to be kept away from the store",
            "export": "write a session to a file",
            "import": "take a session from a file",
            "handoff": "have a session go on at a server, and nowhere else",
            "prune": "remove old sessions (a dry run first)",
        },
    ),
    "set up": (
        "setup",
        {
            "init": "write a small project to start from",
            "completion": "print a completion script for a shell",
            "doctor": "find and explain problems",
            "policy": "check a policy file, explain what it says of a call, try it on recorded sessions",
            "skills": "list skills, show one, check a folder, trust one",
            "mcp": "list MCP servers, show one, trust one; serve agents as one",
            "models": "list the models, and say which one would be used",
            "sim": "run a simulated world of faults, decided by one seed",
            "token": "make, list and revoke the tokens of 'windlass serve'",
            "worker": "offer a sandbox on this machine to runtimes elsewhere",
        },
    ),
}
"""The groups as the help lists them: the folder of each, and its verbs with one line of help."""

VERBS: dict[str, Verb] = {
    name: Verb(f"windlass.cli.verbs.{folder}.{'import_' if name == 'import' else name}", summary)
    for folder, verbs in GROUPS.values()
    for name, summary in verbs.items()
}
