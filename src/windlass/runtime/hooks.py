"""Hooks: code of the user's own at named points. They observe, guard or transform; their rulings are facts.

Hooks are pure by contract: they may run again after a crash. Guards fail closed: one that raises, times out or cannot
read its payload denies. Observers never hurt: whatever they do, the run goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from windlass.events.blocks import Value
from windlass.events.errors import UsageError
from windlass.events.failures import HookPoint, HookReason
from windlass.events.hooks import HookRuling
from windlass.kernel.governance import matches

from .observing import Observing, is_async
from .ports import Ports

TIMEOUT_MS = 5_000
PAYLOAD_BYTES_MAX = 128 * 1024
PRIORITY = 100
MESSAGE_CHARS_MAX = 1_000
READ_BYTES = 64 * 1024
END_S = 1.0
"""How long a program that was ended is waited for."""

GUARDED: frozenset[str] = frozenset(
    {"prompt", "before_model", "after_model", "before_tool", "after_tool", "permission", "credential"}
)
"""Points at which a guard's word counts. Elsewhere there is nothing left to stop."""

CHANGEABLE: frozenset[str] = frozenset({"prompt", "before_tool", "after_tool", "before_model"})
"""Points at which a hook may change the value."""


class Moment(Value, frozen=True, kw_only=True):
    """What a hook is told: where it stands, for whom, and the value in question as plain data."""

    point: HookPoint
    session: str
    agent: str = ""
    run_id: str = ""
    call_id: str | None = None
    tool: str | None = None
    value: Any = None


class Denied(Value, frozen=True, kw_only=True):
    """A guard's no. `fatal` ends the run; else the model is told."""

    message: str = ""
    reason: HookReason = "policy"
    fatal: bool = False


class Allowed(Value, frozen=True, kw_only=True):
    """A guard's yes. At `permission` it is the answer, and no person is asked; elsewhere it lets pass, like None."""

    message: str = ""


class Changed(Value, frozen=True, kw_only=True):
    """A transform's new value."""

    value: Any


Said = Denied | Allowed | Changed | bool | None
"""What a hook may return: None or True lets pass, False is a plain no."""

Function = Callable[[Moment], Said | Awaitable[Said]]


@dataclass(frozen=True, kw_only=True)
class Hook:
    """One hook. Lower priority runs first; equal ones in the order in which they were given."""

    point: HookPoint
    run: Function
    kind: Literal["observe", "guard", "transform"] = "observe"
    name: str = ""
    priority: int = PRIORITY
    timeout_ms: int = TIMEOUT_MS
    tool: str = "*"
    hook_id: str = field(init=False, default="")

    def __post_init__(self) -> None:
        if self.kind == "guard" and self.point not in GUARDED:
            raise UsageError(f"a guard cannot stand at {self.point!r}: use one of {', '.join(sorted(GUARDED))}")
        if self.kind == "transform" and self.point not in CHANGEABLE:
            raise UsageError(f"nothing can be changed at {self.point!r}: use one of {', '.join(sorted(CHANGEABLE))}")
        named = self.name or getattr(self.run, "__name__", type(self.run).__name__)
        object.__setattr__(self, "hook_id", f"{self.point}:{named}")


class Ruled(msgspec.Struct, kw_only=True):
    """What the hooks of one point made of a moment."""

    value: Any
    rulings: list[HookRuling] = []
    changed: bool = False
    allowed: HookRuling | None = None
    """The first plain yes, where nobody said no."""

    @property
    def denied(self) -> HookRuling | None:
        return next((ruling for ruling in self.rulings if ruling.denies), None)


class Hooks:
    """The hooks of an agent, by point. No hook at a point means no step there."""

    def __init__(self, hooks: Iterable[Hook], ports: Ports, observing: Observing, consult: Any = None) -> None:
        """`consult` asks a model through the session, for those hooks that rule by what a model says."""
        self._ports = ports
        self.observing = observing
        self._consult = consult
        self._given = tuple(hooks)
        self._by_point: dict[str, list[Hook]] = {}
        for hook in self._given:
            self._by_point.setdefault(hook.point, []).append(hook)
        for found in self._by_point.values():
            found.sort(key=lambda hook: hook.priority)

    def joined(self, more: Iterable[Hook]) -> Hooks:
        """These hooks and further ones, which follow those of the same priority."""
        return Hooks([*self._given, *more], self._ports, self.observing, self._consult)

    def at(self, point: HookPoint, tool: str | None = None) -> list[Hook]:
        """The hooks that stand at a point, for a tool."""
        return [hook for hook in self._by_point.get(point, ()) if tool is None or matches(hook.tool, tool)]

    def rule_at(self, point: HookPoint, tool: str | None = None) -> bool:
        """Whether somebody there may stop or change something."""
        return any(hook.kind != "observe" for hook in self.at(point, tool))

    async def run(self, moment: Moment, *, tell: bool = True) -> Ruled:
        """Asks the hooks of a point in order; the first denial ends it. Observers are told, not waited for, unless
        they hear of it elsewhere (`tell=False`). Where they are all plain functions, moments are taken one after the
        other, so that the log of parallel calls is the same each time."""
        if any(hook.kind != "observe" and is_async(hook.run) for hook in self.at(moment.point, moment.tool)):
            return await self._run(moment, tell)
        async with self.observing.turn(moment.point):
            return await self._run(moment, tell)

    async def _run(self, moment: Moment, tell: bool) -> Ruled:
        ruled = Ruled(value=moment.value)
        for hook in self.at(moment.point, moment.tool):
            seen = msgspec.structs.replace(moment, value=ruled.value)
            if hook.kind == "observe":
                if tell:
                    self._observe(hook, seen)
                continue
            ruling, said = await self._ask(hook, seen)
            ruled.rulings.append(ruling)
            if ruling.denies:
                ruled.allowed = None
                break
            if isinstance(said, Allowed):
                ruled.allowed = ruled.allowed or ruling
            if isinstance(said, Changed) and hook.kind == "transform":
                ruled.value, ruled.changed = said.value, True
        return ruled

    def tell(self, moment: Moment) -> None:
        """Tells the observers of a point; never waits, never fails."""
        for hook in self.at(moment.point, moment.tool):
            if hook.kind == "observe":
                self._observe(hook, moment)

    def _observe(self, hook: Hook, moment: Moment) -> None:
        self.observing.start(hook, functools.partial(self._call, hook, moment))

    async def _ask(self, hook: Hook, moment: Moment) -> tuple[HookRuling, Said]:
        started = self._ports.monotonic_ms()
        outcome: Literal["allowed", "denied", "changed", "failed", "timed_out"] = "allowed"
        reason: HookReason | None = None
        message, fatal = "", False
        said: Said = None
        try:
            said = _understood(hook, await self._call(hook, moment), moment.value)
        except TimeoutError:
            outcome, reason, message = "timed_out", "timeout", f"no ruling within {hook.timeout_ms} ms"
        except (Exception, SystemExit) as error:  # a guard that fails denies, and the log says why
            outcome, reason, message = "failed", "runtime", f"{type(error).__name__}: {error}"
        if said is False:
            said = Denied()
        if isinstance(said, Denied):
            outcome, reason, message, fatal = "denied", said.reason, said.message, said.fatal
        elif isinstance(said, Allowed):
            message = said.message
        elif isinstance(said, Changed):
            outcome = "changed"
        ruling = HookRuling(
            hook_id=hook.hook_id,
            point=hook.point,
            outcome=outcome,
            reason=reason,
            message=message[:MESSAGE_CHARS_MAX],
            fatal=fatal,
            # A transform that fails leaves the value alone only where it did not matter: it is treated as a guard.
            guard=True,
            duration_ms=max(0, self._ports.monotonic_ms() - started),
            call_id=moment.call_id,
        )
        return ruling, said

    async def _call(self, hook: Hook, moment: Moment) -> Said:
        size = len(msgspec.json.encode(moment))
        if size > PAYLOAD_BYTES_MAX:
            raise UsageError(f"the payload has {size} bytes, more than the {PAYLOAD_BYTES_MAX} a hook is given")
        async with asyncio.timeout(hook.timeout_ms / 1000):
            judge = getattr(hook.run, "rule", None)
            if judge is not None:
                said = judge(moment, self._consult)
            elif is_async(hook.run):
                said = hook.run(moment)
            else:
                said = await self.observing.in_thread(functools.partial(hook.run, moment))
            found: Said = await said if inspect.isawaitable(said) else said
            return found


def _understood(hook: Hook, said: Any, before: Any) -> Said:
    """What a hook said, where that is something it may say: a guard that is not understood must not pass, and what no
    log could hold must not reach it."""
    if said is None or isinstance(said, bool):
        return said
    if not isinstance(said, Denied | Allowed | Changed):
        raise UsageError(f"a hook returns None, True, False, Denied, Allowed or Changed, not {type(said).__name__}")
    if isinstance(said, Changed) and hook.kind != "transform":
        raise UsageError("a guard changes nothing: give the hook kind='transform'")
    try:
        read: Said = msgspec.json.decode(msgspec.json.encode(said), type=type(said))
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise UsageError(f"a hook's {type(said).__name__} cannot be kept: {error}") from None
    if isinstance(read, Changed):
        _check_value(hook.point, read.value, before)
    return read


def _check_value(point: HookPoint, value: Any, before: Any) -> None:
    """Raises `UsageError` for a new value that cannot stand where the old one stood."""
    if point == "prompt" and not isinstance(value, str):
        raise UsageError(f"at prompt the new value is a text, not {type(value).__name__}")
    if point == "before_tool" and not isinstance(value, str if isinstance(before, str) else dict):
        raise UsageError(f"at before_tool the new value is what the call is given, not {type(value).__name__}")
    if point == "after_tool" and not (isinstance(value, dict) and isinstance(value.get("text"), str)):
        raise UsageError("at after_tool the new value is a dict with a 'text', and 'ok' where that changes too")


# --- hooks that are not Python callables --------------------------------------------------------------------------


def read_said(data: bytes) -> Said:
    """What an external hook answered: `{}` where it has nothing to say, `{"decision": "allow"}`, `{"decision": "deny",
    …}` or `{"value": …}`. Unknown fields are refused: a hook that means something else must not pass by accident."""
    if not data.strip():
        return None
    answer = msgspec.json.decode(data, type=_Answer)
    if answer.decision == "deny":
        return Denied(message=answer.message, reason=answer.reason, fatal=answer.fatal)
    if answer.value is not msgspec.UNSET:
        return Changed(value=answer.value)
    return Allowed(message=answer.message) if answer.decision == "allow" else None


class _Answer(msgspec.Struct, forbid_unknown_fields=True):
    decision: Literal["allow", "deny"] | None = None
    message: str = ""
    reason: HookReason = "policy"
    fatal: bool = False
    value: Any = msgspec.UNSET


class CommandHook:
    """An external program: the moment as JSON on its standard input, its ruling as JSON on its standard output. An
    exit code other than 0 is a failure."""

    def __init__(self, *argv: str, env: dict[str, str] | None = None) -> None:
        if not argv:
            raise UsageError("a command hook needs a program to run")
        self.argv = argv
        self.env = env
        self.__name__ = argv[0].rsplit("/", 1)[-1]

    async def __call__(self, moment: Moment) -> Said:
        import subprocess

        pipe = subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self.argv, stdin=pipe, stdout=pipe, stderr=pipe, env=self.env, start_new_session=True
        )
        try:
            _, out, err = await asyncio.gather(
                _feed(process.stdin, msgspec.json.encode(moment)), _read(process.stdout), _read(process.stderr)
            )
            code = await process.wait()
        except BaseException:
            await _end(process)
            raise
        if code != 0:
            raise RuntimeError(f"exit code {code}: {err.decode('utf-8', 'replace')[:500]}")
        return read_said(out)


async def _feed(stream: Any, data: bytes) -> None:
    """Writes to a program, which may well not read it."""
    try:
        stream.write(data)
        await stream.drain()
        stream.close()
    except (BrokenPipeError, ConnectionResetError):
        return


async def _read(stream: Any) -> bytes:
    """All of what somebody answers, within a bound."""
    found = bytearray()
    while piece := await stream.read(READ_BYTES):
        found += piece
        if len(found) > PAYLOAD_BYTES_MAX:
            raise UsageError(f"the hook answered with more than {PAYLOAD_BYTES_MAX} bytes")
    return bytes(found)


async def _end(process: Any) -> None:
    """Ends a program with all that it started: they would hold its pipes, and nobody would wait for them."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), END_S)
    process._transport.close()  # what left its group may hold the pipes for ever


class HttpHook:
    """An address that is POSTed the moment as JSON and answers with a ruling."""

    def __init__(self, url: str, *, headers: dict[str, str] | None = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"hook address {url!r} must begin with http:// or https://")
        self.url = url
        self.headers = headers or {}
        self.__name__ = url.split("/")[2]

    async def __call__(self, moment: Moment) -> Said:
        import aiohttp

        headers = {**self.headers, "content-type": "application/json"}
        async with aiohttp.ClientSession() as client:
            async with client.post(
                self.url, data=msgspec.json.encode(moment), headers=headers, allow_redirects=False
            ) as response:
                if response.status != 200:
                    raise RuntimeError(f"status {response.status}")
                return read_said(await _read(response.content))


# --- guards that ship ---------------------------------------------------------------------------------------------


def pattern_guard(
    patterns: Sequence[str],
    *,
    point: HookPoint = "before_tool",
    tool: str = "*",
    message: str = "the pattern {pattern!r} is not allowed here",
    fatal: bool = False,
) -> Hook:
    """A guard that denies where any regular expression is found: in a text or a name anywhere in the value, as it is,
    or in the whole value as JSON. Every pattern is tried; none can hide another."""
    import re

    compiled = [(pattern, re.compile(pattern)) for pattern in patterns]

    async def search(moment: Moment) -> Said:
        texts = [msgspec.json.encode(moment.value).decode(), *_texts(moment.value)]
        for pattern, expression in compiled:
            if any(expression.search(text) for text in texts):
                return Denied(message=message.format(pattern=pattern), reason="policy", fatal=fatal)
        return None

    search.__name__ = "pattern_guard"
    return Hook(point=point, run=search, kind="guard", tool=tool)


def _texts(value: Any) -> Iterable[str]:
    """Every text in a plain value. In JSON a line break is two characters, and a quote is not alone."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, str):
            yield found
        elif isinstance(found, dict):
            waiting += [*found, *found.values()]
        elif isinstance(found, list | tuple):
            waiting += found
