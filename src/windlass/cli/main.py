"""The `windlass` command: finds the verb, imports only that verb's module, and turns errors into exit codes.

Exit codes are listed in `EXIT_CODES`.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from .exits import ASKED, FAILED, INTERRUPTED, OK, SLEEPING, USAGE
from .verbs import GROUPS, VERBS

EXIT_CODES = {
    OK: "done",
    FAILED: "it failed",
    USAGE: "wrong usage",
    ASKED: "a run waits for a person",
    SLEEPING: "a run sleeps until a time",
    INTERRUPTED: "interrupted",
}

HOMELESS = "Could not determine home directory"
"""How pathlib says that there is neither HOME nor a user with one."""
FOLDER_GONE = "the working folder was deleted: change to another one"
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

'windlass VERB --help' says more. Verbs on sessions take --store PATH, else $WINDLASS_STORE, else the store
of this workspace; 'windlass doctor' says where that is.
exit codes: 0 done, 1 it failed, 2 wrong usage, 3 waits for a person, 4 asleep, 130 interrupted
"""


class Parser(argparse.ArgumentParser):
    """A parser whose complaints read like those of every verb. An option is its whole name: the beginning of one may
    be the name of another elsewhere, and `--session` of `run` is no `--session-wide` of `approve`."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **more})

    def format_help(self) -> str:
        """The help, fitted to the screen if there is one."""
        from windlass.cli.terminal.text import is_terminal, width_of

        from .help_text import fitted

        said = super().format_help()
        return fitted(said, width_of(sys.stdout)) if is_terminal(sys.stdout) else said

    def error(self, message: str) -> NoReturn:
        """Says what is wrong, how it is called and where more is written."""
        from windlass.cli.terminal.text import tell
        from windlass.cli.terminal.visible_text import visible

        tell(f"windlass: {visible(message)}\n{self.format_usage().strip()}", sys.stderr)
        tell(f"'{self.prog} --help' says more", sys.stderr)
        self.exit(USAGE)

    def _print_message(self, message: str, file: Any = None) -> None:
        # argparse says nothing if this fails.
        if message and (out := file or sys.stderr) is not None:
            out.write(message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # argparse words this differently in each version of Python, and lists what it should not.
        if action.choices is not None and value not in action.choices:
            if action.dest == "verb":
                raise argparse.ArgumentError(None, no_verb(value))
            if isinstance(action, argparse._SubParsersAction):
                raise argparse.ArgumentError(None, f"{value!r} is none of {', '.join(map(str, action.choices))}")
            raise argparse.ArgumentError(action, f"{value!r} is none of {', '.join(map(str, action.choices))}")


class VerbParser(Parser):
    """The parser of one verb: options may stand anywhere among its words, and what it does not know is its error."""

    _within = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Called with the words behind the verb."""
        if self._within:
            return super().parse_known_args(args, namespace)
        self._within = True  # what follows calls this again, for the options and for the words between them
        try:
            if any(action.nargs == argparse.PARSER for action in self._actions):
                arguments, unknown = super().parse_known_args(args, namespace)
            else:
                arguments, unknown = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._within = False
        if unknown:
            self.error(self._unknown(unknown[0]))
        return arguments, unknown

    def _unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return f"one word too many: {word!r}"
        import difflib

        options = [
            name for action in self._actions for name in action.option_strings if action.help != argparse.SUPPRESS
        ]
        near = difflib.get_close_matches(word.partition("=")[0], options, n=1)
        return f"there is no option {word!r}" + (f": did you mean {near[0]}?" if near else "")


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
        "\n".join([f"{title}:", *(f"  {name:{wide}}  {summary}" for name, summary in verbs.items())])
        for title, (_, verbs) in GROUPS.items()
    ]
    return "\n\n".join(["A durable agent runtime.", *groups])


def build(argv: Sequence[str]) -> argparse.ArgumentParser:
    """The parser. Only the verb that is asked for is configured, so that the others need not be imported."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="windlass", usage=USAGE_LINE, description=described(), epilog=EXAMPLES, formatter_class=raw)
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="print the version and exit")
    verbs = parser.add_subparsers(
        dest="verb", metavar="VERB", prog="windlass", help=argparse.SUPPRESS, parser_class=VerbParser
    )
    wanted = next((word for word in argv if not word.startswith("-")), None)
    for name, verb in VERBS.items():
        verb_parser = verbs.add_parser(name, description=verb.summary, formatter_class=raw)
        if name == wanted:
            importlib.import_module(verb.module).configure(verb_parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code."""
    from windlass.cli.terminal.standard_streams import be_courteous_on_stderr, open_closed_streams

    open_closed_streams()
    be_courteous_on_stderr()
    spell_out()
    try:
        return begin(list(sys.argv[1:] if argv is None else argv))
    except BrokenPipeError:
        # The reader went away (`| head`); whatever is still buffered must not complain at exit.
        sys.stdout = None
        return FAILED
    except OSError as error:
        if not unwritable(error):
            return complain(OSError(told_of(error)), FAILED)
        # Nothing that is still buffered may complain once more at exit.
        sys.stdout = None
        return complain(OSError(f"cannot write the output: {error.strerror}"), FAILED)
    except SystemExit:
        try:
            flushed(FAILED)
        except OSError:
            sys.stdout = None
        raise
    except KeyboardInterrupt:
        # Whoever presses Ctrl-C once more while the program ends wants it gone, without a word.
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
        return INTERRUPTED


def spell_out() -> None:
    """Lets letters that an output does not know be written by their numbers, instead of ending the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def begin(words: list[str]) -> int:
    """Parses and runs."""
    from windlass.events.errors import UsageError

    if (odd := next(filter(None, map(no_text, words)), None)) is not None:
        return complain(UsageError(f"{odd} is not text in UTF-8"), USAGE)
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
        code: int = importlib.import_module(VERBS[args.verb].module).run(args)
    except UsageError as error:
        return complain(error, USAGE)
    except WindlassError as error:
        return complain(error, FAILED)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("windlass.adapters."):
            raise
        return complain(UsageError(f"{args.verb}: this installation is without {error.name}"), USAGE)
    except RuntimeError as error:
        if not str(error).startswith(HOMELESS):
            raise
        return complain(UsageError(f"{args.verb}: no home folder is known: set HOME"), USAGE)
    return flushed(code)


def flushed(code: int) -> int:
    """The exit code, once everything is written."""
    if sys.stdout is not None:
        sys.stdout.flush()
    return code


def unwritable(error: OSError) -> bool:
    """Whether an error came of writing what is shown, and not of a file (which has a name)."""
    return error.errno in (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG) and error.filename is None


def told_of(error: OSError) -> str:
    """What the system refused, and where."""
    if isinstance(error, FileNotFoundError) and not has_folder():
        return FOLDER_GONE
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    return ": ".join([*(f"{name!r}" for name in names), error.strerror or str(error) or type(error).__name__])


def has_folder() -> bool:
    """Whether the folder that this process works in is still there."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def no_text(word: str) -> str:
    """A word that bytes were in which are no text, as it can be shown; nothing if it is text."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return ascii(word.encode(errors="surrogateescape")).removeprefix("b")
    return ""


def complain(error: Exception, code: int) -> int:
    from windlass.cli.terminal.text import tell
    from windlass.cli.terminal.visible_text import visible

    tell(f"windlass: {visible(str(error))}", sys.stderr)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
