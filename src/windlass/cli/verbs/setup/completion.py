"""`windlass completion`: a script that completes verbs, options and session ids, written from the parsers."""

from __future__ import annotations

import argparse

EXAMPLES = """examples:
  windlass completion bash >> ~/.bashrc
  windlass completion zsh >> ~/.zshrc
  windlass completion fish > ~/.config/fish/completions/windlass.fish
"""
SHELLS = ("bash", "zsh", "fish")
IDS_MAX = 1_000
"""How many sessions are offered, those that changed last."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("shell", choices=SHELLS, help="which shell")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    print(fish() if args.shell == "fish" else bash(zsh=args.shell == "zsh"))
    return 0


def offered() -> dict[str, list[str]]:
    """The long options of each verb."""
    from windlass.cli.reference import parser_of
    from windlass.cli.verbs import VERBS

    words = {}
    for name in VERBS:
        shown = [action for action in parser_of(name)._actions if action.help != argparse.SUPPRESS]
        words[name] = sorted(word for action in shown for word in action.option_strings if word.startswith("--"))
    return words


def on_sessions() -> list[str]:
    """The verbs whose first word is a session."""
    from windlass.cli.reference import parser_of
    from windlass.cli.verbs import VERBS

    return [name for name in VERBS if any(action.dest == "session" for action in words_of(parser_of(name))[:1])]


def words_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What a verb takes besides its options, in order."""
    return [action for action in parser._actions if not action.option_strings]


def bash(*, zsh: bool) -> str:
    """The script for bash, which zsh can read as well."""
    options = offered()
    cases = "\n".join(f'        {name}) words="{" ".join(words)}" ;;' for name, words in options.items())
    patterns = " | ".join(f'"{name} "*' for name in on_sessions())
    first = "autoload -U +X bashcompinit && bashcompinit\n" if zsh else ""
    return f"""{first}_windlass_sessions() {{
    local store="" id n
    for ((n = 2; n < COMP_CWORD; n++)); do
        if [ "${{COMP_WORDS[n]}}" = "--store" ]; then store="${{COMP_WORDS[n + 1]}}"; fi
    done
    while IFS= read -r id; do
        case "$id" in "${{COMP_WORDS[COMP_CWORD]}}"*) COMPREPLY+=("$(printf %q "$id")") ;; esac
    done < <(windlass ps --ids --limit {IDS_MAX} ${{store:+--store "$store"}} 2>/dev/null)
}}
_windlass() {{
    local words
    COMPREPLY=()
    case "${{COMP_WORDS[1]}}" in
{cases}
        *) words="" ;;
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{" ".join(options)}"
    elif [ "${{COMP_WORDS[COMP_CWORD - 1]}}" = "--session" ]; then
        _windlass_sessions
        return
    elif [ "$COMP_CWORD" -eq 2 ] || [ "${{COMP_WORDS[1]}}" = "diff" ]; then
        case "${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD]}}" in
        *" -"*) ;;
        {patterns})
            _windlass_sessions
            return
            ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _windlass windlass"""


def fish() -> str:
    """The script for fish."""
    options = offered()
    sessions = f"(windlass ps --ids --limit {IDS_MAX} 2>/dev/null)"
    lines = [f"complete -c windlass -n __fish_use_subcommand -f -a '{' '.join(options)}'"]
    for name, words in options.items():
        seen = f"complete -c windlass -n '__fish_seen_subcommand_from {name}'"
        lines += [f"{seen} -l {word[2:]}" + (f" -x -a '{sessions}'" if word == "--session" else "") for word in words]
    for name in on_sessions():
        lines.append(f"complete -c windlass -n '__fish_seen_subcommand_from {name}' -f -a '{sessions}'")
    return "\n".join(lines)
