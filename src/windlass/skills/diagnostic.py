"""What is to be said of a skill: how bad it is, what it is called, where it stands, and how to mend it."""

from __future__ import annotations

from typing import Literal

from windlass.events.values.blocks import Value

Severity = Literal["error", "warning"]


class Diagnostic(Value, frozen=True, kw_only=True):
    """One remark about a skill or a place where skills were looked for. An error is what the format forbids."""

    severity: Severity
    code: str
    """What it is, in a word that stays the same."""
    message: str
    fix: str = ""
    field: str = ""
    path: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        """Where it stands, as `file:line`."""
        return f"{self.path}:{self.line}" if self.line else self.path

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.severity}: {self.message} [{self.code}]{f'; {self.fix}' if self.fix else ''}"


def error(code: str, message: str, fix: str, *, field: str = "", line: int = 0, path: str = "") -> Diagnostic:
    return Diagnostic(severity="error", code=code, message=message, fix=fix, field=field, line=line, path=path)


def warning(code: str, message: str, fix: str = "", *, field: str = "", line: int = 0, path: str = "") -> Diagnostic:
    return Diagnostic(severity="warning", code=code, message=message, fix=fix, field=field, line=line, path=path)
