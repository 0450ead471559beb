"""The tokens that a server knows: one file for its owner alone, which keeps digests and no token.

The first token is made on first start and kept in a file beside it, so that whoever may read that file may begin.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import os
import pathlib
import re
import secrets
import stat
from collections.abc import Iterator, Sequence

import msgspec

from windlass.events.errors import UsageError
from windlass.store.rules.ids import check_id

from .roles import ROLES, Role

FIRST = "first"
"""The name of the token that is made on first start."""
FILE_BYTES_MAX = 1_000_000
TOKENS_MAX = 1_000
TOKEN_CHARS_MAX = 200
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}\Z")


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """One token: what it is called, what it may do, whose sessions it sees, and its digest."""

    name: str
    roles: tuple[Role, ...]
    tenant: str = "default"
    digest: str
    created_ms: int = 0


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    tokens: list[Token] = []


_decode = msgspec.json.Decoder(_Kept).decode


def digest_of(token: str) -> str:
    """What is kept of a token. It is random and long, so a plain digest cannot be guessed backwards."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


class TokenFile:
    """The tokens in one file. What others change in it is seen at the next look."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = pathlib.Path(path)
        self._seen: tuple[int, int, int] | None = None
        self._tokens: tuple[Token, ...] = ()

    @property
    def first_path(self) -> pathlib.Path:
        """Where the first token is, in plain."""
        return self.path.with_suffix(".first")

    def tokens(self) -> tuple[Token, ...]:
        """All of them. Raises `UsageError` if the file is not its owner's alone, or no such file."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            self._seen, self._tokens = None, ()
            return ()
        except OSError as error:
            raise UsageError(f"{self.path}: the tokens cannot be read: {error.strerror}") from None
        seen = (status.st_ino, status.st_mtime_ns, status.st_size)
        if seen != self._seen:
            self._tokens = self._read()
            self._seen = seen
        return self._tokens

    def found(self, presented: str) -> Token | None:
        """The token that somebody presents; None if there is none. Takes as long whatever is presented."""
        digest = digest_of(presented[:TOKEN_CHARS_MAX])
        presented_token = None
        for token in self.tokens():
            if hmac.compare_digest(token.digest, digest):
                presented_token = token
        return presented_token

    def add(self, name: str, roles: Sequence[str], *, tenant: str = "default", now_ms: int = 0) -> str:
        """Makes a token and gives it, once: only its digest is kept. Raises `UsageError`."""
        if not NAME.match(name):
            raise UsageError(f"{name!r} is no name for a token: use up to 64 letters, digits, '_', '-', '.' and '@'")
        unknown = [role for role in roles if role not in ROLES]
        if unknown or not roles:
            said = ", ".join(roles) or "none"
            raise UsageError(f"a token has one or more of the roles {', '.join(ROLES)}, not {said}")
        check_id("tenant", tenant)
        token = f"wl_{secrets.token_urlsafe(32)}"
        made = Token(
            name=name,
            roles=tuple(role for role in ROLES if role in roles),
            tenant=tenant,
            digest=digest_of(token),
            created_ms=now_ms,
        )
        with self._changed() as tokens:
            if any(known.name == name for known in tokens):
                raise UsageError(f"there is a token {name!r} already: revoke it first, or choose another name")
            if len(tokens) >= TOKENS_MAX:
                raise UsageError(f"there are {TOKENS_MAX} tokens already: revoke some")
            tokens.append(made)
        return token

    def revoke(self, name: str) -> None:
        """Takes a token away; servers refuse it from the next request on. Raises `UsageError` if there is none."""
        with self._changed() as tokens:
            left = [token for token in tokens if token.name != name]
            if len(left) == len(tokens):
                raise UsageError(f"there is no token {name!r}: 'windlass token list' lists them")
            tokens[:] = left
        if name == FIRST:
            self.first_path.unlink(missing_ok=True)

    def ensure_first(self, *, tenant: str, now_ms: int) -> bool:
        """Makes the first token, for everything, if there is none at all. Whether it was made."""
        if self.tokens():
            return False
        self._make_room()
        with contextlib.suppress(UsageError):  # another server was quicker
            token = self.add(FIRST, ["admin"], tenant=tenant, now_ms=now_ms)
            _write(self.first_path, f"{token}\n".encode())
            return True
        return False

    def _make_room(self) -> None:
        try:
            os.makedirs(self.path.parent, mode=0o700, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self.path.parent}: tokens cannot be kept there: {error.strerror}") from None

    def _read(self) -> tuple[Token, ...]:
        try:
            with open(os.open(self.path, os.O_RDONLY | os.O_CLOEXEC), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077 or status.st_uid != os.geteuid():
                    raise UsageError(f"{self.path}: the tokens must be their owner's alone: chmod 600 {self.path}")
                return tuple(_decode(file.read(FILE_BYTES_MAX)).tokens)
        except (OSError, msgspec.DecodeError) as error:
            raise UsageError(f"{self.path}: the tokens cannot be read: {error}") from None

    @contextlib.contextmanager
    def _changed(self) -> Iterator[list[Token]]:
        """The tokens, to be changed by this process alone, and kept as they are then."""
        self._make_room()
        lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            tokens = list(self._read()) if self.path.exists() else []
            yield tokens
            _write(self.path, msgspec.json.format(msgspec.json.encode(_Kept(tokens=tokens))))
        finally:
            os.close(lock)


def _write(path: pathlib.Path, data: bytes) -> None:
    """Puts a file in place as a whole, for its owner alone."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise UsageError(f"{path}: it cannot be written: {error.strerror}") from None
