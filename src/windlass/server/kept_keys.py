"""What was asked for under the Idempotency-Keys that this process has kept commands for, by digest: a key that comes
again with something else is a mistake of its sender, who would take the acknowledgement of the first for its own.

Remembered by this process, for as many as there is room for. The log cannot say it: a command on record is not what was
sent (the host fills it in, and what is secret is hidden), and a digest beside it would tell what was erased. A key that
is not remembered is acknowledged, so that a true repeat always is.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable

from .problems import Problem

KEYS_MAX = 10_000
DIGEST_BYTES = 16


class KeyUse:
    """One use of a key."""

    kept = False
    """Set once the command is kept."""


class KeptKeys:
    """The keys, the oldest first."""

    def __init__(self, most: int = KEYS_MAX) -> None:
        self._most = most
        self._digests: OrderedDict[tuple[str, ...], bytes] = OrderedDict()

    @contextlib.asynccontextmanager
    async def use(
        self, place: tuple[str, ...], wish: bytes, is_known: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[KeyUse]:
        """While a key is used for something: `place` is whose it is and for what kind of command, the key last. Whether
        a command was taken under it before is asked if this process does not know it: what for, nobody knows then.
        Raises `Problem` for a key that is remembered for something else."""
        digest = hashlib.blake2b(wish, digest_size=DIGEST_BYTES).digest()
        before = self._digests.setdefault(place, digest)  # at once: another request may come while this one is kept
        if before != digest:
            why = f"the key {place[-1]!r} was used for something else: nothing was done; use another key"
            raise Problem(422, "key_reused", why)
        use, remembers = KeyUse(), before is not digest
        try:
            known = remembers or await is_known()
            yield use
            remembers = remembers or (use.kept and not known)
        finally:
            if not remembers:
                self._digests.pop(place, None)
            while len(self._digests) > self._most:
                self._digests.popitem(last=False)
