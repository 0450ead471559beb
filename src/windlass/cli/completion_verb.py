"""`windlass completion`: a script that completes verbs and options, written from the parsers themselves."""

from __future__ import annotations

import argparse

EXAMPLES = """examples:
  windlass completion bash >> ~/.bashrc
  windlass completion zsh >> ~/.zshrc
  windlass completion fish > ~/.config/fish/completions/windlass.fish
"""
SHELLS = ("bash", "zsh", "fish")


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
    from .main import VERBS
    from .reference import parser_of

    found = {}
    for name in VERBS:
        shown = [action for action in parser_of(name)._actions if action.help != argparse.SUPPRESS]
        found[name] = sorted(word for action in shown for word in action.option_strings if word.startswith("--"))
    return found


def bash(*, zsh: bool) -> str:
    """The script for bash, which zsh can read as well."""
    options = offered()
    cases = "\n".join(f'        {name}) words="{" ".join(words)}" ;;' for name, words in options.items())
    first = "autoload -U +X bashcompinit && bashcompinit\n" if zsh else ""
    return f"""{first}_windlass() {{
    local words
    case "${{COMP_WORDS[1]}}" in
{cases}
        *) words="" ;;
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{" ".join(options)}"
    fi
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _windlass windlass"""


def fish() -> str:
    """The script for fish."""
    options = offered()
    lines = [f"complete -c windlass -n __fish_use_subcommand -f -a '{' '.join(options)}'"]
    for name, words in options.items():
        lines += [f"complete -c windlass -n '__fish_seen_subcommand_from {name}' -l {word[2:]}" for word in words]
    return "\n".join(lines)
