"""What a person should notice before they agree, in one sentence."""

from __future__ import annotations

from posixpath import basename

from .shell_text import ShellText

REMOVING = frozenset({"rm", "rmdir", "shred", "unlink", "truncate"})
POWER = frozenset({"sudo", "doas", "su", "pkexec", "chroot"})
DISKS = frozenset({"dd", "mkfs", "fdisk", "parted", "wipefs", "mkswap"})
PROCESSES = frozenset({"kill", "killall", "pkill", "reboot", "shutdown", "systemctl"})
FETCHING = frozenset({"curl", "wget", "nc", "ncat", "ssh", "scp", "rsync", "ftp", "telnet"})
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})


def warning_of(text: ShellText) -> str | None:
    """The gravest things about a text; None if nothing stands out."""
    names = {basename(command.name) for command in text.commands}
    git = [c.argv[1:] for c in text.commands if c.name == "git"]
    warnings = [
        (not text.readable, f"cannot be read: {text.unclear}"),
        (text.readable and not text.exact, f"may do more than is listed: {text.unclear}"),
        (bool(names & POWER), "uses the rights of another user"),
        (bool(names & DISKS) or any(n.startswith("mkfs.") for n in names), "writes to disks"),
        (bool(names & REMOVING), "removes files"),
        (any("push" in words for words in git), "pushes to another repository"),
        (any({"reset", "clean"} & set(words[:2]) for words in git), "throws changes away"),
        (bool(names & PROCESSES), "ends processes or services"),
        (bool(names & FETCHING) and bool(names & SHELLS), "may run what it fetches"),
    ]
    said = [words for holds, words in warnings if holds]
    return "; ".join(said) if said else None
