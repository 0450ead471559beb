"""The logins of one user: a file for each server, which nobody else can read, with who gave it and where it is renewed.
Several processes use them; one at a time renews."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import AsyncIterator

import msgspec

from windlass.events.values.blocks import Value

from .addresses import LoginError, resource
from .registration import Client

FILE_BYTES_MAX = 256 * 1024
LOCK_S = 60.0
POLL_S = 0.02


class Login(Value, frozen=True, kw_only=True):
    """A login at one server, given by one issuer. What it was given by is kept beside it: it is renewed there only."""

    url: str
    resource: str
    issuer: str
    token_endpoint: str
    revocation_endpoint: str = ""
    client: Client
    scope: str = ""
    access_token: str
    refresh_token: str = ""
    expires_s: float | None = None
    """When it is over, in seconds since 1970; None if that was not said."""

    def __repr__(self) -> str:
        return f"Login(url={self.url!r}, issuer={self.issuer!r})"


class KeptLogins:
    """The logins of one user."""

    def __init__(self, folder: str | None = None) -> None:
        from windlass.mcp.trust import state_folder

        self.folder = folder or os.path.join(state_folder(), "logins")

    def path(self, url: str) -> str:
        """Where the login at a server is kept."""
        name = hashlib.blake2b(resource(url).encode(), digest_size=16).hexdigest()
        return os.path.join(self.folder, f"{name}.json")

    def mark(self, url: str) -> tuple[int, int, int] | None:
        """What tells a file from what was there before; None if there is none."""
        try:
            status = os.stat(self.path(url), follow_symlinks=False)
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def of(self, url: str) -> Login | None:
        """The login at a server; None if there is none. Raises `LoginError` for one that others could have read or
        written."""
        path = self.path(url)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise LoginError(f"the login in {path} cannot be read: {error.strerror}") from None
        with open(fd, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
                raise LoginError(f"the login in {path} must be its owner's alone: chmod 600 {path}, or log in again")
            data = file.read(FILE_BYTES_MAX)
        try:
            login = msgspec.json.decode(data, type=Login)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise LoginError(f"the login in {path} is damaged: log in again") from None
        if login.url != resource(url):
            raise LoginError(f"the login in {path} is one at another server: log in again")
        return login

    def keep(self, login: Login) -> None:
        """Keeps a login in the place of the one before. Raises `LoginError` if it cannot be kept safely."""
        try:
            self._make_room()
            fd, name = tempfile.mkstemp(dir=self.folder)  # for its owner alone
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(msgspec.json.encode(login))
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(name, self.path(login.url))
            except OSError:
                os.unlink(name)
                raise
        except OSError as error:
            raise LoginError(f"a login cannot be kept in {self.folder}: {error.strerror}") from None

    def forget(self, url: str) -> None:
        """Takes a login away, if there is one. Raises `LoginError` if it cannot be."""
        path = self.path(url)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise LoginError(f"the login in {path} cannot be forgotten: {error.strerror}") from None

    @contextlib.asynccontextmanager
    async def alone(self, url: str) -> AsyncIterator[None]:
        """While this lasts, no other task and no other process renews this login. Raises `LoginError` if somebody
        does so for too long."""
        try:
            self._make_room()
            fd = os.open(f"{self.path(url)}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise LoginError(f"logins cannot be kept in {self.folder}: {error.strerror}") from None
        try:
            clock = asyncio.get_running_loop().time
            until = clock() + LOCK_S
            while not _locked(fd):
                if clock() > until:
                    raise LoginError(f"another process renews the login at {url} for more than {LOCK_S:g} s")
                await asyncio.sleep(POLL_S)
            yield
        finally:
            os.close(fd)

    def _make_room(self) -> None:
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        status = os.lstat(self.folder)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise LoginError(f"{self.folder} is no folder that this user alone may write to: logins are not kept there")


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
