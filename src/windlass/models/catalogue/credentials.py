"""Keys and tokens: where they come from, to which endpoint they belong, and how they are renewed.

A value leaves this module only towards its own endpoint: never in a repr, an error, a warning or a pickle.
"""

from __future__ import annotations

import inspect
import os
import pathlib
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn, Protocol
from urllib.parse import urlsplit

from windlass.events.errors import UsageError, WindlassError
from windlass.events.stored.known_secrets import SECRETS
from windlass.events.values.failures import Failure, failure

from .endpoints import Endpoint

VALUE_CHARS_MAX = 16_384
"""Longer than any key or token that a header could carry."""

DEFAULT_PORTS = {"http": 80, "https": 443}


class CredentialError(WindlassError):
    """No usable value right now. `failure` says why; the model answers the request with it."""

    def __init__(self, why: Failure) -> None:
        super().__init__(why.message)
        self.failure = why


class Secret:
    """A value that shows itself only when asked by `reveal`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value
        SECRETS.add_key(value)

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret('***')"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    __hash__ = None  # type: ignore[assignment]  # a hash would be a way to guess it

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be pickled: store it in a keyring or file and name it there")


class Rotated:
    """What a rotation hook is told: the new token of an endpoint, to be kept by the host."""

    __slots__ = ("access", "endpoint", "expires_at_ms", "refresh")

    def __init__(self, endpoint: str, access: Secret, refresh: Secret | None, expires_at_ms: int | None) -> None:
        self.endpoint = endpoint
        self.access = access
        self.refresh = refresh
        self.expires_at_ms = expires_at_ms

    def __repr__(self) -> str:
        return f"Rotated(endpoint={self.endpoint!r}, expires_at_ms={self.expires_at_ms!r})"


RotationHook = Callable[[Rotated], Awaitable[None] | None]


class Source(Protocol):
    """Where a value comes from. `get` raises `CredentialError` when there is none; `renew` is told of a value that
    was refused and says whether asking again will give another answer."""

    async def get(self) -> str: ...

    async def renew(self, refused: str) -> bool: ...


class Credentials:
    """A credential bound to one endpoint. Calling it gives the value for one request; `refused` is told of one that
    got a 401. Both are what a wire format expects of a credential."""

    def __init__(
        self,
        source: Source,
        *,
        endpoint: Endpoint,
        header: str | None = None,
        scheme: str | None = None,
    ) -> None:
        self.source = source
        self.endpoint = endpoint.name
        self.origin = origin_of(endpoint.base_url)
        self.header = header
        self.scheme = scheme

    async def __call__(self) -> str:
        return checked(await self.source.get(), self.endpoint)

    async def refused(self, value: str) -> bool:
        return await self.source.renew(value)

    def check_bound_to(self, endpoint: Endpoint) -> None:
        """Raises `UsageError` unless this credential was made for that endpoint's own scheme, host and port."""
        if origin_of(endpoint.base_url) != self.origin:
            raise UsageError(
                f"this credential belongs to {self.endpoint!r} at {self.origin}, not to {endpoint.name!r} at "
                f"{origin_of(endpoint.base_url)}: make one for that endpoint"
            )

    @property
    def label(self) -> str:
        """What it is called, for people and for hooks; nothing of its value."""
        return label_of(self.source)

    def __repr__(self) -> str:
        return f"Credentials(endpoint={self.endpoint!r}, origin={self.origin!r})"

    def __copy__(self) -> Credentials:
        return self

    def __deepcopy__(self, memo: object) -> Credentials:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("credentials cannot be pickled: make them anew where they are needed")


def label_of(credential: object) -> str:
    """What a credential, or the source of one, is called. A value that was given in code has no name of its own."""
    if credential is None or isinstance(credential, str):
        return "a value given in code"
    return str(getattr(credential, "label", "a function" if callable(credential) else type(credential).__name__))


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL: what a credential is bound to."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}:{parts.port or DEFAULT_PORTS.get(parts.scheme, 0)}"


def checked(value: object, endpoint: str) -> str:
    """The value without surrounding white space, or a failure that says what is wrong without showing it."""
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        raise CredentialError(failure("no_credentials", f"the credential for {endpoint!r} is empty"))
    if len(text) > VALUE_CHARS_MAX or not text.isascii() or not text.isprintable():
        raise CredentialError(
            failure(
                "no_credentials",
                f"the credential for {endpoint!r} cannot be sent in a header: it must be one line of printable ASCII, "
                f"at most {VALUE_CHARS_MAX} characters",
            )
        )
    return text


# --- sources -----------------------------------------------------------------------------------------------------


class FixedSource:
    """One value that never changes."""

    label = "a value given in code"

    def __init__(self, value: str) -> None:
        self._value = Secret(value)

    async def get(self) -> str:
        return self._value.reveal()

    async def renew(self, refused: str) -> bool:
        return False


class EnvironmentSource:
    """The first of some environment variables that is set, read anew for each request."""

    def __init__(self, names: tuple[str, ...], environ: Mapping[str, str] | None, endpoint: str) -> None:
        self._names = names
        self._environ = environ
        self._endpoint = endpoint

    @property
    def label(self) -> str:
        """The variable that is set, or those that might be."""
        name = self._name()
        return f"environment variable {name or ' or '.join(self._names)}"

    async def get(self) -> str:
        value = self._read()
        if value is None:
            raise CredentialError(
                failure(
                    "no_credentials",
                    f"no key for {self._endpoint!r}: set {' or '.join(self._names)} (in Python also: credential=)",
                )
            )
        return value

    async def renew(self, refused: str) -> bool:
        return (self._read() or "").strip() not in ("", refused)

    def _read(self) -> str | None:
        name = self._name()
        return self._variables()[name] if name is not None else None

    def _name(self) -> str | None:
        environ = self._variables()
        return next((name for name in self._names if environ.get(name, "").strip()), None)

    def _variables(self) -> Mapping[str, str]:
        return os.environ if self._environ is None else self._environ


class FileSource:
    """The content of a file, read anew for each request, so that another program may replace it."""

    def __init__(self, path: str | os.PathLike[str], endpoint: str) -> None:
        self._path = pathlib.Path(path).expanduser()
        self._endpoint = endpoint
        self.label = f"file {str(self._path)!r}"

    async def get(self) -> str:
        try:
            with self._path.open(encoding="utf-8") as file:
                return file.read(VALUE_CHARS_MAX + 2)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or "it is not text"
            message = f"the key file {str(self._path)!r} for {self._endpoint!r} cannot be read: {why}"
        raise CredentialError(failure("no_credentials", message))

    async def renew(self, refused: str) -> bool:
        try:
            return (await self.get()).strip() not in ("", refused)
        except CredentialError:
            return False


class KeyringSource:
    """An entry of the system's keyring. Needs the extra `windlass[keyring]`; asks it in a thread, since a keyring may
    stop to ask a person."""

    def __init__(self, service: str, user: str, endpoint: str, backend: Any = None) -> None:
        self._service = service
        self._user = user
        self._endpoint = endpoint
        self._backend = backend or load_keyring()
        self.label = f"keyring entry {service!r} / {user!r}"

    async def get(self) -> str:
        import asyncio

        try:
            value = await asyncio.to_thread(self._backend.get_password, self._service, self._user)
        except Exception as error:
            message = f"the keyring failed for {self._endpoint!r}: {type(error).__name__}"
            raise CredentialError(failure("no_credentials", message)) from None
        if not value:
            message = (
                f"the keyring has no entry {self._service!r} / {self._user!r} for {self._endpoint!r}: store it there"
            )
            raise CredentialError(failure("no_credentials", message))
        return str(value)

    async def renew(self, refused: str) -> bool:
        try:
            return (await self.get()).strip() != refused
        except CredentialError:
            return False


def load_keyring() -> Any:
    """The keyring library, or an error that says how to get it."""
    try:
        import keyring
    except ImportError:
        raise UsageError("the keyring is not installed: pip install 'windlass[keyring]'") from None
    return keyring


class CallableSource:
    """A host's own function. `refresh` is told of a refused value and gives the next one, or none when only a person
    can sign in again."""

    label = "a function"

    def __init__(
        self,
        get: Callable[[], Awaitable[str] | str],
        endpoint: str,
        refresh: Callable[[str], Awaitable[str | None] | str | None] | None,
        on_rotate: RotationHook | None,
    ) -> None:
        self._get = get
        self._endpoint = endpoint
        self._refresh = refresh
        self._on_rotate = on_rotate
        self._renewed: Secret | None = None
        self._revoked: Secret | None = None

    async def get(self) -> str:
        if self._renewed is not None:
            return self._renewed.reveal()
        value = str(await self._ask(self._get))
        if self._revoked is not None and value.strip() == self._revoked.reveal():
            raise CredentialError(sign_in_again(self._endpoint))
        return value

    async def renew(self, refused: str) -> bool:
        if self._refresh is None:
            return False
        if self._renewed is not None and self._renewed.reveal() != refused:
            return True  # another request renewed it meanwhile
        value = await self._ask(self._refresh, refused)
        if not value:
            self._renewed, self._revoked = None, Secret(refused)
            return True
        self._renewed = Secret(str(value).strip())
        await tell(self._on_rotate, Rotated(self._endpoint, self._renewed, None, None))
        return True

    async def _ask(self, function: Callable[..., Any], *args: str) -> Any:
        try:
            value = function(*args)
            return await value if inspect.isawaitable(value) else value
        except CredentialError:
            raise
        except Exception as error:  # what it says may hold the value, so only its type is told
            message = f"the credential function for {self._endpoint!r} raised {type(error).__name__}"
        raise CredentialError(failure("no_credentials", message))


def sign_in_again(endpoint: str, detail: str = "") -> Failure:
    """The failure that ends a run `asked`: only a person can go on."""
    more = f" ({detail})" if detail else ""
    return failure("reauth_required", f"the sign-in for {endpoint!r} is no longer valid{more}: sign in again")


async def tell(hook: RotationHook | None, rotated: Rotated) -> None:
    """Tells the host of a new token. A hook that fails must not cost the token that we hold, so it is a warning."""
    if hook is None:
        return
    try:
        outcome = hook(rotated)
        if inspect.isawaitable(outcome):
            await outcome
    except Exception as error:
        warnings.warn(
            f"the rotation hook for {rotated.endpoint!r} raised {type(error).__name__}: the new token is not kept",
            RuntimeWarning,
            stacklevel=2,
        )


# --- ways to make one --------------------------------------------------------------------------------------------


def from_value(endpoint: Endpoint, value: str, **more: Any) -> Credentials:
    """A key given in code."""
    return Credentials(FixedSource(value), endpoint=endpoint, **more)


def from_environment(
    endpoint: Endpoint, *names: str, environ: Mapping[str, str] | None = None, **more: Any
) -> Credentials:
    """A key from the environment, by the endpoint's usual names unless others are given."""
    wanted = names or endpoint.key_env
    if not wanted:
        raise UsageError(f"endpoint {endpoint.name!r} has no usual key variable: give its name")
    return Credentials(EnvironmentSource(wanted, environ, endpoint.name), endpoint=endpoint, **more)


def from_file(endpoint: Endpoint, path: str | os.PathLike[str], **more: Any) -> Credentials:
    """A key from a file."""
    return Credentials(FileSource(path, endpoint.name), endpoint=endpoint, **more)


def from_keyring(
    endpoint: Endpoint, service: str = "windlass", user: str = "", *, backend: Any = None, **more: Any
) -> Credentials:
    """A key from the system's keyring, under `service` and, unless given, the endpoint's name as its user."""
    source = KeyringSource(service, user or endpoint.name, endpoint.name, backend)
    return Credentials(source, endpoint=endpoint, **more)


def from_callable(
    endpoint: Endpoint,
    get: Callable[[], Awaitable[str] | str],
    *,
    refresh: Callable[[str], Awaitable[str | None] | str | None] | None = None,
    on_rotate: RotationHook | None = None,
    **more: Any,
) -> Credentials:
    """A key from the host's own function, with a way to renew it."""
    return Credentials(CallableSource(get, endpoint.name, refresh, on_rotate), endpoint=endpoint, **more)
