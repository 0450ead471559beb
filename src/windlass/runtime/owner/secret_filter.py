"""Keeps known secrets out of a log: a fact that holds one is taken without it."""

from __future__ import annotations

import msgspec

from windlass.events import known_types
from windlass.events.base import Fact
from windlass.events.stored import codec
from windlass.events.stored.known_secrets import SECRETS
from windlass.events.stored.record import Sealed


def holds_secret(sealed: Sealed) -> bool:
    """Whether anything that is about to be kept holds a known secret."""
    return SECRETS.within(sealed.data)


def without_secrets(fact: Fact) -> Fact:
    """The fact with a mark for each known secret; the same object if there is none in it."""
    try:
        data = msgspec.json.encode(fact)
    except UnicodeEncodeError:
        data = msgspec.json.encode(codec.scrubbed(fact))
    clean = SECRETS.hidden(data)
    return fact if clean is data else known_types.decode(clean, type(fact))
