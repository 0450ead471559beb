"""What a label may be: a word, then perhaps a colon and a name: `untrusted`, `untrusted:web`, `private:payroll`.

Two words mean something to the gate: `untrusted` is about where data comes from, `private` about whom it may reach.
Any other word is carried on as well, for rules to match.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from windlass.events.errors import UsageError

UNTRUSTED = "untrusted"
PRIVATE = "private"
CHARS_MAX = 128
MOST = 64
"""How many labels one thing has at most."""
LABEL = re.compile(r"[a-z][a-z0-9_-]{0,31}(?::[!-~]+)?")


def word(label: str) -> str:
    """What a label says, without the name of whom or what it says it."""
    return label.partition(":")[0]


def is_untrusted(label: str) -> bool:
    return word(label) == UNTRUSTED


def is_private(label: str) -> bool:
    return word(label) == PRIVATE


def strange(labels: Iterable[str]) -> str | None:
    """What is wrong with some labels, and how to mend it; None if nothing is."""
    all_labels = list(labels)
    if len(all_labels) > MOST:
        return f"{len(all_labels)} labels: at most {MOST}"
    for label in all_labels:
        if not isinstance(label, str) or len(label) > CHARS_MAX or not LABEL.fullmatch(label):
            shown = repr(label)[:CHARS_MAX]
            return (
                f"{shown} is no label: a word in small letters, then perhaps ':' and a name, such as 'private:payroll'"
            )
    return None


def checked(labels: Iterable[str]) -> tuple[str, ...]:
    """Labels as a caller gave them. Raises `UsageError` for one that is none."""
    words = (labels,) if isinstance(labels, str) else tuple(dict.fromkeys(labels))
    if wrong := strange(words):
        raise UsageError(wrong)
    return words


def sound(label: str) -> str:
    """A label within its bounds. What a tool said while it ran is never lost: if it cannot be kept as it is, its word
    stays, and one without a word that can be read is `untrusted`."""
    if len(label) <= CHARS_MAX and LABEL.fullmatch(label):
        return label
    said = word(label).strip().lower()
    return said if LABEL.fullmatch(said) else UNTRUSTED
