"""What each rule of the model server rests on: the vendor's page, the vendor's own types, or a public report.

A refusal names its rule; the tables beside this module say why it is there. They hold no checks. Kinds of citation:

- `docs:` a page of the vendor's documentation
- `sdk:` a type in the vendor's official Python SDK, whose fields and notes are made from the API's own description
- `reported:` a public thread that shows the vendor's refusal, where no page says so
- `ours:` neither was found; what is refused is refused out of caution, and the reason is given
"""

from __future__ import annotations

import msgspec

KINDS = ("docs", "sdk", "reported", "ours")


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule demands, and where that is written."""

    says: str
    cites: tuple[str, ...]


def rule(says: str, *cites: str) -> Rule:
    return Rule(says=says, cites=cites)
