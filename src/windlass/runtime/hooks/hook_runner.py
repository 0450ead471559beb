"""Runs the hooks of a point, each within its time and with a bounded payload, and says what they ruled.

A guard that raises, takes too long or cannot be understood denies.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from windlass.events import known_types
from windlass.events.errors import UsageError
from windlass.events.hooks import HookPoint, HookReason, HookRuling
from windlass.kernel.parts.tools.policy_rules import matches
from windlass.runtime.host.ports import Ports
from windlass.tools.planes.task_stops import Foreign, own_code

from .hook import PAYLOAD_BYTES_MAX, Allowed, Asked, Changed, Denied, Hook, Moment, Said
from .observers import Observers, is_async

MESSAGE_CHARS_MAX = 1_000


class Ruled(msgspec.Struct, kw_only=True):
    """What the hooks of one point made of a moment."""

    value: Any
    rulings: list[HookRuling] = []
    changed: bool = False
    allowed: HookRuling | None = None
    """The first plain yes, if nobody said no."""

    @property
    def denied(self) -> HookRuling | None:
        return next((ruling for ruling in self.rulings if ruling.denies), None)


class HookRunner:
    """The hooks of an agent, by point. No hook at a point means no step there."""

    def __init__(
        self,
        hooks: Iterable[Hook],
        ports: Ports,
        observing: Observers,
        consult: Any = None,
        announce: Callable[[Hook, Moment], None] | None = None,
    ) -> None:
        """`consult` asks a model through the session, for those hooks that rule by what a model says; `announce` is
        told of each hook that begins."""
        self._ports = ports
        self.observing = observing
        self._consult = consult
        self._announce = announce
        self._given = tuple(hooks)
        self._by_point: dict[str, list[Hook]] = {}
        for hook in self._given:
            self._by_point.setdefault(hook.point, []).append(hook)
        for point_hooks in self._by_point.values():
            point_hooks.sort(key=lambda hook: hook.priority)

    @property
    def points(self) -> Iterable[str]:
        """The points at which any of them stand."""
        return self._by_point

    def joined(self, more: Iterable[Hook]) -> HookRunner:
        """These hooks and further ones, which follow those of the same priority."""
        return HookRunner([*self._given, *more], self._ports, self.observing, self._consult, self._announce)

    def at(self, point: HookPoint, tool: str | None = None) -> list[Hook]:
        """The hooks that stand at a point, for a tool."""
        here = self._by_point.get(point)
        return [hook for hook in here if tool is None or matches(hook.tool, tool)] if here else []

    def rule_at(self, point: HookPoint, tool: str | None = None) -> bool:
        """Whether somebody there may stop or change something."""
        return any(hook.kind != "observe" for hook in self.at(point, tool))

    async def run(self, moment: Moment, *, tell: bool = True) -> Ruled:
        """Asks the hooks of a point in order; the first denial ends it. Observers are told, not waited for, unless
        they hear of it elsewhere (`tell=False`). If they are all plain functions, moments are taken one after the
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
        outcome: Literal["allowed", "denied", "asked", "changed", "failed", "timed_out"] = "allowed"
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
        elif isinstance(said, Asked):
            outcome, message = "asked", said.message
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
            # A transform that fails leaves the value alone only if it did not matter: it is treated as a guard.
            guard=True,
            duration_ms=max(0, self._ports.monotonic_ms() - started),
            call_id=moment.call_id,
        )
        return ruling, said

    async def _call(self, hook: Hook, moment: Moment) -> Said:
        size = len(msgspec.json.encode(moment))
        if size > PAYLOAD_BYTES_MAX:
            raise UsageError(f"the payload has {size} bytes, more than the {PAYLOAD_BYTES_MAX} a hook is given")
        if self._announce is not None:
            self._announce(hook, moment)
        with own_code():
            return await self._in_time(hook, moment)

    async def _in_time(self, hook: Hook, moment: Moment) -> Said:
        async with asyncio.timeout(hook.timeout_ms / 1000):
            judge = getattr(hook.run, "rule", None)
            if judge is not None:
                said = judge(moment, self._consult)
            elif is_async(hook.run):
                said = hook.run(moment)
            else:
                said = await self.observing.in_thread(functools.partial(hook.run, moment))
            async with Foreign():
                answer: Said = await said if inspect.isawaitable(said) else said
            return answer


def _understood(hook: Hook, said: Any, before: Any) -> Said:
    """What a hook said, if that is something it may say: a guard that is not understood must not pass, and what no
    log could hold must not reach it."""
    if said is None or isinstance(said, bool):
        return said
    if not isinstance(said, Denied | Allowed | Asked | Changed):
        what = "None, True, False, Denied, Allowed, Asked or Changed"
        raise UsageError(f"a hook returns {what}, not {type(said).__name__}")
    if isinstance(said, Asked) and hook.point != "before_tool":
        raise UsageError(f"nobody can be asked at {hook.point!r}: a hook may want that at 'before_tool'")
    if isinstance(said, Changed) and hook.kind != "transform":
        raise UsageError("a guard changes nothing: give the hook kind='transform'")
    try:
        read: Said = known_types.decode(msgspec.json.encode(said), type(said))
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
    if point == "before_mcp":
        from windlass.runtime.mcp.call_hooks import checked_meta

        checked_meta(value)
    if point == "after_tool" and not (isinstance(value, dict) and isinstance(value.get("text"), str)):
        raise UsageError("at after_tool the new value is a dict with a 'text', and 'ok' if that changes too")
