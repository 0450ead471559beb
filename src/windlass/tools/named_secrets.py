"""Secrets by name: tools and processes name what they need, and the value is looked up when it is used.

A value that was looked up is known from then on, so that it is left out of everything that is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from windlass.events.errors import UsageError
from windlass.events.stored.known_secrets import SECRETS
from windlass.tools.context import ToolError

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")
VALUE_CHARS_MAX = 64 * 1024

SecretSource = str | Callable[[], str]
"""A value, or what gives it when it is needed: from a keyring, a vault, a file."""


class NamedSecrets:
    """The secrets of a runtime. Called with a name, it gives the value."""

    def __init__(self, given: Iterable[str] | Mapping[str, SecretSource] = ()) -> None:
        if isinstance(given, str):
            raise UsageError("secrets is a list of values, or values by name: write secrets={'NAME': value}")
        self._sources: dict[str, SecretSource] = {}
        if isinstance(given, Mapping):
            for name, source in given.items():
                self._add(name, source)
        else:
            for value in given:
                _known(value, "a secret")

    @property
    def names(self) -> tuple[str, ...]:
        """What there is, by name."""
        return tuple(sorted(self._sources))

    def __call__(self, name: str) -> str:
        """The value of a secret. Raises `ToolError` for one that there is not, in words that hold no value."""
        source = self._sources.get(name)
        if source is None:
            known = ", ".join(self.names) or "none"
            raise ToolError(f"there is no secret {name!r} here: there are {known}", code="no_secret")
        if isinstance(source, str):
            return source
        try:
            value = source()
        except Exception as error:  # the host's own code, whose words may hold anything
            raise ToolError(f"the secret {name!r} cannot be had ({type(error).__name__})", code="no_secret") from None
        return _known(value, f"the secret {name!r}")

    def _add(self, name: str, source: SecretSource) -> None:
        if not isinstance(name, str) or not NAME.match(name):
            raise UsageError(f"{name!r} is no name of a secret: letters, digits, '_', '-' and '.', at most 64")
        if not callable(source):
            _known(source, f"the secret {name!r}")
        self._sources[name] = source


def _known(value: str, what: str) -> str:
    """A value that is hidden from now on."""
    if not isinstance(value, str):
        raise UsageError(f"{what} is a text, not {type(value).__name__!r}")
    if "\0" in value or len(value) > VALUE_CHARS_MAX:
        raise UsageError(f"{what} holds a NUL or more than {VALUE_CHARS_MAX} characters")
    SECRETS.add(value)
    return value
