"""The `windlass` command: finds the verb, imports only that verb's module, and turns errors into exit codes.

Exit codes are listed in `EXIT_CODES`.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from .exits import ASKED, FAILED, INTERRUPTED, OK, SLEEPING, USAGE

VERBS: dict[str, tuple[str, str]] = {
    "run": ("windlass.cli.run_verb", "give an agent something to do, and watch it"),
    "chat": ("windlass.cli.chat_verb", "talk with an agent"),
    "demo": ("windlass.cli.demo_verb", "run an agent on the embedded model, kept in SQLite, printed live"),
    "ps": ("windlass.cli.ps_verb", "list sessions: state, waiting for what, age, cost"),
    "logs": ("windlass.cli.logs_verb", "show a session's log as a timeline, and follow it"),
    "show": ("windlass.cli.show_verb", "show one session, what it waits for and how to answer"),
    "inspect": ("windlass.cli.inspect_verb", "show what the model sees at a point of the log"),
    "cost": ("windlass.cli.show_verb", "show what sessions have used"),
    "approve": ("windlass.cli.answer_verb", "allow a call that waits for a person"),
    "deny": ("windlass.cli.answer_verb", "refuse a call that waits for a person"),
    "answer": ("windlass.cli.answer_verb", "answer a question of an agent"),
    "settle": ("windlass.cli.answer_verb", "say what became of a call whose outcome is unknown"),
    "interrupt": ("windlass.cli.control_verb", "stop what a session is doing; it may go on later"),
    "cancel": ("windlass.cli.control_verb", "stop what a session is doing and close it for good"),
    "wake": ("windlass.cli.control_verb", "have a session go on now"),
    "queue": ("windlass.cli.control_verb", "show or change the prompts that wait"),
    "fork": ("windlass.cli.branch_verb", "begin a new session from a point of another"),
    "rewind": ("windlass.cli.control_verb", "go back to an earlier history"),
    "replay": ("windlass.cli.replay_verb", "run a session again with another model or policy, and compare"),
    "verify": ("windlass.cli.verify_verb", "check that logs are what was written"),
    "export": ("windlass.cli.branch_verb", "write a session to a file"),
    "import": ("windlass.cli.branch_verb", "take a session from a file"),
    "prune": ("windlass.cli.branch_verb", "remove old sessions (a dry run first)"),
    "init": ("windlass.cli.init_verb", "write a small project to start from"),
    "completion": ("windlass.cli.completion_verb", "print a completion script for a shell"),
    "doctor": ("windlass.cli.doctor_verb", "find and explain problems"),
    "models": ("windlass.cli.models_verb", "list the models, and say which one would be used"),
    "sim": ("windlass.cli.sim_verb", "live through a simulated world of faults, decided by one seed"),
}
"""Each verb with the module that does it and one line of help. A module has `configure(parser)` and `run(args)`."""

GROUPS: dict[str, str] = {
    "work with an agent": "run chat demo",
    "look at sessions": "ps logs show inspect cost",
    "answer and steer": "approve deny answer settle interrupt cancel wake queue",
    "go back, or another way": "fork rewind replay",
    "keep the logs": "verify export import prune",
    "set up": "init completion doctor models sim",
}
"""The verbs as the help lists them; each stands in one group."""

EXIT_CODES = {
    OK: "done",
    FAILED: "it failed",
    USAGE: "it was called wrongly",
    ASKED: "a run waits for a person",
    SLEEPING: "a run sleeps until a time",
    INTERRUPTED: "interrupted",
}

USAGE_LINE = "windlass [-h] [--version] VERB ..."
EXAMPLES = """examples:
  windlass demo                      an agent on a model that needs no key, from its prompt to its log
  windlass run 'What is in this folder?' --tool list --tool read
  windlass chat --agent clerk.py:clerk --session march
  windlass ps                        what runs, what waits for whom, what it cost
  windlass logs march -f             what happens, as it happens
  windlass approve march             let a call run that waits for a person
  windlass models                    which models there are, and which one would be used
  windlass models pull embedded      fetch the model that needs no key

'windlass VERB --help' says more. Verbs on sessions take --store PATH, else $WINDLASS_STORE, else ./windlass.db.
exit codes: 0 done, 1 it failed, 2 it was called wrongly, 3 waits for a person, 4 asleep, 130 interrupted
"""


class Parser(argparse.ArgumentParser):
    """A parser whose complaints read like those of every verb."""

    def format_help(self) -> str:
        """The help, fitted to the screen where there is one."""
        from .help_text import fitted
        from .text import is_terminal, width_of

        said = super().format_help()
        return fitted(said, width_of(sys.stdout)) if is_terminal(sys.stdout) else said

    def error(self, message: str) -> NoReturn:
        """Says what is wrong, how it is called and where more is written."""
        from .text import tell, visible

        tell(f"windlass: {visible(message)}\n{self.format_usage().strip()}", sys.stderr)
        tell(f"'{self.prog} --help' says more", sys.stderr)
        self.exit(USAGE)

    def _print_message(self, message: str, file: Any = None) -> None:
        # argparse keeps it to itself where this fails.
        if message and (out := file or sys.stderr) is not None:
            out.write(message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # argparse words this differently in each version of Python, and lists what it should not.
        if action.choices is not None and value not in action.choices:
            if action.dest == "verb":
                raise argparse.ArgumentError(None, no_verb(value))
            raise argparse.ArgumentError(action, f"{value!r} is none of {', '.join(map(str, action.choices))}")


def no_verb(word: str) -> str:
    import difflib

    near = difflib.get_close_matches(word, VERBS, n=1)
    return f"there is no verb {word!r}" + (f": did you mean {near[0]!r}?" if near else "")


class ShowVersion(argparse.Action):
    """Prints the version; looked up only when somebody asks."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"windlass {version('windlass')}")
        parser.exit(OK)


def described() -> str:
    """What this is, and every verb in its group."""
    wide = max(map(len, VERBS))
    groups = [
        "\n".join([f"{title}:", *(f"  {name:{wide}}  {VERBS[name][1]}" for name in names.split())])
        for title, names in GROUPS.items()
    ]
    return "\n\n".join(["A durable agent runtime.", *groups])


def build(argv: Sequence[str]) -> argparse.ArgumentParser:
    """The parser. Only the verb that is asked for is configured, so that the others need not be imported."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="windlass", usage=USAGE_LINE, description=described(), epilog=EXAMPLES, formatter_class=raw)
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="print the version and exit")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", prog="windlass", help=argparse.SUPPRESS)
    wanted = next((word for word in argv if not word.startswith("-")), None)
    for name, (module, summary) in VERBS.items():
        verb = verbs.add_parser(name, description=summary, formatter_class=raw)
        if name == wanted:
            importlib.import_module(module).configure(verb)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code."""
    spell_out()
    try:
        return begin(list(sys.argv[1:] if argv is None else argv))
    except BrokenPipeError:
        # The reader went away (`| head`); whatever is still buffered must not complain at exit.
        sys.stdout = None
        return FAILED
    except OSError as error:
        if not unwritable(error):
            raise
        # Nothing that is still buffered may complain once more at exit.
        sys.stdout = None
        return complain(OSError(f"cannot write the output: {error.strerror}"), FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


def spell_out() -> None:
    """Lets letters that an output does not know be written by their numbers, instead of ending the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def begin(words: list[str]) -> int:
    """Parses and runs."""
    parser = build(words)
    try:
        args = parser.parse_args(words)
    except SystemExit as stop:
        return flushed(stop.code if isinstance(stop.code, int) else USAGE)
    if args.verb is None:
        parser.print_help()
        return flushed(OK)
    return perform(args)


def perform(args: argparse.Namespace) -> int:
    """Runs the verb; what went wrong is one line on stderr."""
    from windlass.events.errors import UsageError, WindlassError

    try:
        code: int = importlib.import_module(VERBS[args.verb][0]).run(args)
    except UsageError as error:
        return complain(error, USAGE)
    except WindlassError as error:
        return complain(error, FAILED)
    return flushed(code)


def flushed(code: int) -> int:
    """The exit code, once everything is written."""
    if sys.stdout is not None:
        sys.stdout.flush()
    return code


def unwritable(error: OSError) -> bool:
    """Whether an error came of writing what is shown, and not of a file (which has a name)."""
    return error.errno in (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG) and error.filename is None


def complain(error: Exception, code: int) -> int:
    from .text import tell, visible

    tell(f"windlass: {visible(str(error))}", sys.stderr)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
