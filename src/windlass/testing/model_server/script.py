"""Which answer a request gets: a list in order, a function, or an echo.

Entries of a list may be faults. A fault that spoils the reply leaves the answer behind it for the next request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windlass.testing.model_server.faults.fault import Fault
from windlass.testing.model_server.wires.parsed import ParsedRequest
from windlass.testing.model_server.wires.wire import WireRefused

from .answers import ECHO_LIMIT, Answer, Turn, answer_of, say

Choose = Callable[[ParsedRequest], Turn | Fault]
Source = Sequence[Turn | Fault] | Choose | None

SCRIPT_USED_UP = "script_used_up"
"""The error code of a request that comes after the last answer of a list."""

SCRIPT_RAISED = "script_raised"
"""The error code of a request for which the script's function raised."""

PLACEHOLDER = "an answer that is only there to be disturbed"


class Script:
    """One source of answers with its place in it."""

    def __init__(self, source: Source = None) -> None:
        self._choose: Choose = echo
        self._entries: list[Turn | Fault] | None = None
        if callable(source):
            self._choose = source
        elif source is not None:
            self._entries = list(source)
        self._next = 0

    @property
    def left(self) -> int | None:
        """How many entries are unused; None for a function or the echo."""
        return None if self._entries is None else len(self._entries) - self._next

    def extend(self, *turns: Turn | Fault) -> None:
        """Adds answers at the end."""
        self._entries = [*(self._entries or []), *turns]

    def take(self, request: ParsedRequest, injected: Fault | None) -> tuple[Answer, Fault | None]:
        """The answer for this request and the fault it meets. Raises WireRefused when the list is used up."""
        if self._entries is not None:
            return self._listed(self._entries, injected)
        try:
            chosen = self._choose(request)
        except Exception as error:  # The script is the test's own code: its failure must be seen, and not retried.
            raise WireRefused(f"the script raised {error!r}", code=SCRIPT_RAISED) from error
        if isinstance(chosen, Fault):
            return say(PLACEHOLDER), injected or chosen
        return answer_of(chosen), injected

    def _listed(self, entries: list[Turn | Fault], fault: Fault | None) -> tuple[Answer, Fault | None]:
        if fault is None and self._next < len(entries):
            entry = entries[self._next]
            if isinstance(entry, Fault):
                fault = entry
                self._next += 1
        for at in range(self._next, len(entries)):
            entry = entries[at]
            if not isinstance(entry, Fault):
                if fault is None or fault.uses_answer:
                    self._next = at + 1
                return answer_of(entry), fault
        if fault is None:
            raise used_up(len(entries))
        return say(PLACEHOLDER), fault


def used_up(entries: int) -> WireRefused:
    message = f"the script of {entries} answers is used up: give it more, or a function"
    return WireRefused(message, status=400, code=SCRIPT_USED_UP)


def echo(request: ParsedRequest) -> Answer:
    """The default: repeats the prompt, or the newest tool results."""
    if request.results:
        return say("results: " + "; ".join(each.text for each in request.results)[:ECHO_LIMIT])
    return say(f"echo: {request.prompt[:ECHO_LIMIT]}")


def by_turn(turns: Sequence[Turn | Fault]) -> Choose:
    """A script that many conversations can share at once: the answer follows from how often the model has spoken in
    that conversation, and the last one is repeated."""
    entries = list(turns)

    def choose(request: ParsedRequest) -> Turn | Fault:
        return entries[min(request.turn, len(entries) - 1)]

    return choose
