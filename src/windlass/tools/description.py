"""What a call is about, said before it is judged: its subject, what it touches, what a person is shown.

It is for people, patterns and policies. Describing runs nothing and changes nothing. It reads nothing from disk either,
unless its tool says so (`describe_in_thread`): a person who is to agree to a change must see it, and that needs what
the file holds now. Such a tool reads a bounded content, by the same descriptors that hold the call itself beneath
its root, for a bounded time and in a thread; what it saw goes on record as the `basis` of the call, and an approval
holds for that basis alone. What cannot be described is no error: the call is asked about, and the reason is on record.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events import known_types
from windlass.events.tools.permissions import AnyDetail
from windlass.events.values.access import Access
from windlass.events.values.blocks import JsonObject, Value
from windlass.events.values.policy import Trait

from .canonical_json import canonical

if TYPE_CHECKING:
    from .tool import AnyTool

SUBJECT_CHARS_MAX = 1_000
"""A longer subject is none: a pattern would speak of text that nobody reads to its end."""
ARGUMENTS_SHOWN_MAX = 256
"""Canonical arguments above this do not stand for a call."""
DETAIL_BYTES_MAX = 256 * 1024
LISTED_MAX = 64
"""How many paths, hosts, commands or labels one call has at most."""
NAME_CHARS_MAX = 4_096
LISTS = ("paths", "writes", "hosts", "commands", "labels")
REASON_CHARS_MAX = 300
BASIS_CHARS_MAX = 64 * 1024
TIME_S = 10.0
"""How long a description may take that reads."""


class CallPlace(Value, frozen=True, kw_only=True):
    """Where a call would happen, as far as the log says."""

    session: str = ""
    agent: str = ""
    folder: str | None = None
    """The session's workspace."""
    exclude: tuple[str, ...] = ()
    """Globs of what no model may see, as the session's policy has them."""


class Description(Value, frozen=True, kw_only=True):
    """What a tool says of one call. Everything may be left out."""

    subject: str | None = None
    """The one line that stands for the whole call; approvals by pattern are matched against it. None leaves it to the
    default; an empty one says that nothing stands for this call, so that it can only be approved as it is."""
    detail: AnyDetail | None = None
    """What a person is shown; the whole arguments if absent."""
    paths: tuple[str, ...] = ()
    """What it would read or write, as whole paths."""
    root: str | None = None
    """The folder that the tool works beneath, if that is not the session's: names of folders above it mean nothing."""
    writes: tuple[str, ...] = ()
    """Those of the paths that it would write, make, move or remove."""
    hosts: tuple[str, ...] = ()
    """Whom it would talk to, as names in lower case without a port."""
    asks: Access = Access()
    """What it asks for that its sandbox does not give to all. Only for tools that run nothing but commands there."""
    commands: tuple[str, ...] = ()
    """The simple commands that it would run, each as one line of its words."""
    traits: tuple[Trait, ...] | None = None
    """What this very call does, if that is less than its tool can do: a shell that only reads does not write."""
    exact: bool = True
    """Whether paths, hosts and commands are all there are. If not, no rule about them allows the call, no standing
    approval by pattern is offered, and a denial about them is asked about."""
    labels: tuple[str, ...] = ()
    """What its result is marked with, beside what its tool's results are."""
    excluded: str | None = None
    """Why the call must not be made whoever agrees, since no model may see what it would give."""
    unclear: str | None = None
    """Why nobody can say what the call is about; it is asked about then, whatever the policy allows."""
    sensitive: str | None = None
    """Why the call is asked about whatever the policy or a standing approval allows: it touches what steers agents, or
    what other programs obey."""
    futile: str | None = None
    """Why the call cannot succeed as things are, without a word of what no rule has allowed to be read yet. Nobody is
    asked about such a call: its model is told at once."""
    basis: str = ""
    """What was seen that the call would change: an approval holds for this alone, and the call gets it when it runs."""


Describe = Callable[[JsonObject, CallPlace], Description | str | None]
"""Says what a call with these arguments is about. A text alone is the subject; None leaves it to the default."""


def described(tool: AnyTool, args: JsonObject, place: CallPlace) -> Description:
    """What a call is about: as its tool says, with the default subject if it says none. Never raises."""
    describe = tool.options.describe
    if describe is None:
        return Description(subject=default_subject(args, tool.parameters.schema))
    try:
        said = describe(copy.deepcopy(args), place)
        sound = _sound(said)
    except Exception as error:  # the author's own code; what it raises must neither end the run nor let a call pass
        return _unclear(f"describing the call raised {type(error).__name__}: {error}")
    if sound.unclear is not None or isinstance(said, str) or (said is not None and said.subject is not None):
        return sound  # a subject that cannot be shown on one line is none, and nothing else may take its place
    return msgspec.structs.replace(sound, subject=default_subject(args, tool.parameters.schema))


async def described_aside(tool: AnyTool, args: JsonObject, place: CallPlace) -> Description:
    """The same in a thread, for tools that read to describe a call; one that takes too long is unclear."""
    import asyncio

    try:
        return await asyncio.wait_for(asyncio.to_thread(described, tool, args, place), TIME_S)
    except TimeoutError:
        return _unclear(f"describing the call took more than {TIME_S:g} s")


def default_subject(args: JsonObject, schema: JsonObject) -> str | None:
    """The text that is a call's only argument beside defaults, else all arguments in canonical form, if that is short.

    An argument that looks like the second form is never given as the first, so that one pattern means one thing."""
    properties = schema.get("properties", {})
    chosen = [value for name, value in args.items() if not _is_default(value, properties.get(name))]
    if len(chosen) == 1 and isinstance(chosen[0], str) and chosen[0] and not chosen[0].startswith("{"):
        return _line(chosen[0])
    whole = canonical(args)
    return _line(whole.decode("utf-8")) if len(whole) <= ARGUMENTS_SHOWN_MAX else None


def _is_default(value: Any, declared: Any) -> bool:
    return isinstance(declared, dict) and "default" in declared and _same(declared["default"], value)


def _same(one: Any, other: Any) -> bool:
    """Equality that tells 1 from true."""
    return type(one) is type(other) and bool(one == other)


def _line(text: str) -> str | None:
    """A text that can stand for a call: one line that is seen whole, with nothing invisible or turned around in it."""
    return text if 0 < len(text) <= SUBJECT_CHARS_MAX and text.isprintable() else None


def _sound(said: Any) -> Description:
    """What an author's function returned, within bounds. Whatever else it is, is unclear."""
    if said is None:
        return Description()
    if isinstance(said, str):
        return Description(subject=_line(said))
    if not isinstance(said, Description):
        if inspect.iscoroutine(said):
            said.close()
        return _unclear(f"describing the call gave {type(said).__name__!r} instead of a Description or a text")
    # Through the codec, since an author's values may be anything whatever their annotations say.
    sound = known_types.convert(msgspec.to_builtins(said), Description)
    for what in LISTS:
        names = getattr(sound, what)
        if len(names) > LISTED_MAX or any(len(name) > NAME_CHARS_MAX for name in names):
            return _unclear(f"describing the call gave {what} beyond {LISTED_MAX} of {NAME_CHARS_MAX} characters")
    size = len(msgspec.json.encode(sound.detail))
    if size > DETAIL_BYTES_MAX:
        return _unclear(f"describing the call gave a detail of {size} bytes, more than {DETAIL_BYTES_MAX}")
    if len(sound.basis) > BASIS_CHARS_MAX:
        return _unclear(f"describing the call gave a basis of more than {BASIS_CHARS_MAX} characters")
    return msgspec.structs.replace(
        sound,
        sensitive=_reason(sound.sensitive),
        futile=_reason(sound.futile),
        subject=_line(sound.subject) if sound.subject is not None else None,
        excluded=_reason(sound.excluded),
        unclear=_reason(sound.unclear),
    )


def _unclear(why: str) -> Description:
    return Description(unclear=_reason(why))


def _reason(why: str | None) -> str | None:
    if why is None:
        return None
    shown = why[: REASON_CHARS_MAX + 1].encode("utf-8", "replace").decode()
    return shown if len(shown) <= REASON_CHARS_MAX else shown[:REASON_CHARS_MAX] + " …"
