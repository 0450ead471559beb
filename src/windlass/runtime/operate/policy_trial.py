"""What another policy would have said of the calls of a recorded session, each where it was judged. Changes nothing.

Everything comes from the log: what a call was given, what it would touch, the tools, the mode, the labels and the
standing approvals of that moment. What people approved is taken for approved; what older logs do not say of a call is
not known, and judged so."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from windlass.events.base import Event
from windlass.events.runs import RunStarted
from windlass.events.stored import codec
from windlass.events.tools.calls import CallReceived, DenialReason, ToolAllowed, ToolDenied, ToolPrepared
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.turns import ModelReplied, Prepared
from windlass.events.values.blocks import JsonObject, Value
from windlass.events.values.ids import call_id
from windlass.events.values.policy import Policy
from windlass.events.values.tools import ToolText
from windlass.kernel.fold import evolve, tick
from windlass.kernel.parts.tools import gate, rule_limits, verdicts
from windlass.kernel.state import State
from windlass.runtime.bind.policy_conditions import about_call, judged
from windlass.runtime.bind.prepared_calls import excluded_path
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key, Store
from windlass.tools.description import CallPlace

Outlook = Literal["allowed", "asked", "denied"]
BY_POLICY: tuple[DenialReason, ...] = ("rules", "no_approver", "asked_enough", "content_excluded", "mode")
"""The denials that the gate gives by rule, mode and policy; calls that were denied otherwise were not judged."""
UNRULED = ("requested", "prepared")


class TriedCall(Value, frozen=True, kw_only=True):
    """One recorded call, with what became of it at the gate and what would have under another policy."""

    session: str
    call_id: str
    tool: str
    args: JsonObject | str | None
    was: Outlook
    would: Outlook
    rule: str
    """The line of the other policy that says so."""


async def tried(store: Store, key: Key, policy: Policy) -> list[TriedCall]:
    """Every call of a session that its gate judged, judged again."""
    appends = [codec.decode(sealed.data) async for sealed in LogReader(store).appends(key)]
    passed = {event.call_id for append in appends for event in append.events if isinstance(event, ToolAllowed)}
    trial = _Trial(key.session, policy, passed)
    for append in appends:
        tick(trial.state, append.at_ms, type(append.events[0]))
        for event in append.events:
            known = codec.require_known(event, trial.state.seq + 1)
            if known is None:
                trial.state.seq += 1
                continue
            trial.judge(known)
            evolve(trial.state, known)
            trial.learn(known)
    return trial.calls


class _Trial:
    """A session on its way through its log, with a second gate beside its own."""

    def __init__(self, session: str, policy: Policy, passed: set[str]) -> None:
        self.state = State()
        self.calls: list[TriedCall] = []
        self._session = session
        self._gate = gate.Gate(policy=policy)
        self._passed = passed
        self._prepared: dict[str, tuple[Prepared, JsonObject | None, str | None]] = {}
        self._texts: dict[str, ToolText] = {}

    def learn(self, event: Event) -> None:
        """Keeps what later calls are judged by."""
        for text in getattr(getattr(event, "body", None), "tools", ()) or ():
            if isinstance(text, ToolText):
                self._texts[text.name] = text
        if isinstance(event, ModelReplied) and event.body is not None:
            for proposed in event.body.calls:
                if proposed.prepared is not None:
                    name = call_id(self.state.seq, proposed.call.ordinal)
                    self._prepared[name] = (proposed.prepared, proposed.call.args, proposed.call.text)
        elif isinstance(event, ToolPrepared) and event.body is not None:
            self._prepared[event.call_id] = (event.body.prepared, event.body.args, event.body.text)
        elif isinstance(event, CallReceived) and event.body is not None and event.body.prepared is not None:
            self._prepared[call_id(self.state.seq, 0)] = (event.body.prepared, event.body.args, None)
        elif isinstance(event, RunStarted):
            with self._other_gate():
                gate.run_started(self.state, event)

    def judge(self, event: Event) -> None:
        """Judges a call where its own gate did, before that is folded."""
        was = _ruled(event)
        name: str = getattr(event, "call_id", "")
        call = self.state.calls.by_id.get(name)
        if was is None or call is None or call.status not in UNRULED or name not in self._prepared:
            return
        spec = self.state.toolset.tools.get(call.tool)
        prepared, args, text = self._prepared.pop(name)
        if spec is None or prepared.errors:
            return
        with self._other_gate():
            other_prepared = self._looked_at(spec.name, prepared, args or {})
            would, rule = verdicts.verdict_on(self.state, spec, other_prepared)
            if would == "allowed" or (would == "asked" and name in self._passed):
                gate.passed(self.state, rule_limits.counted(self.state, spec, other_prepared))
        shown = args if args is not None else text
        self.calls.append(
            TriedCall(session=self._session, call_id=name, tool=call.tool, args=shown, was=was, would=would, rule=rule)
        )

    def _looked_at(self, tool: str, prepared: Prepared, args: JsonObject) -> Prepared:
        """What the host would have found out about the call under the other policy."""
        state, about = self.state, about_call(prepared)
        folder = state.workspace.folder.cwd if state.workspace.folder is not None else None
        place = CallPlace(folder=folder, exclude=tuple(self._gate.policy.exclude))
        spec = state.toolset.tools[tool]
        matched, unjudged = judged(state, spec, self._filled(tool, args), about, prepared.sandbox)
        return msgspec.structs.replace(
            prepared, matched=matched, unjudged=unjudged, excluded=excluded_path(about, place), exact=about.exact
        )

    def _filled(self, tool: str, args: JsonObject) -> JsonObject:
        """The arguments with the defaults of the recorded schema, as conditions see them."""
        text = self._texts.get(tool)
        properties: dict[str, Any] = text.parameters.get("properties", {}) if text is not None else {}
        defaults = {k: v["default"] for k, v in properties.items() if isinstance(v, dict) and "default" in v}
        return {**defaults, **args}

    @contextlib.contextmanager
    def _other_gate(self) -> Iterator[None]:
        own = self.state.gate
        self._gate.grants, self._gate.denials = own.grants, own.denials
        # Whose session it is and how far its folder is trusted was said of the session, not by the policy.
        said = {"role": own.policy.role, "trusted": own.policy.trusted}
        self._gate.policy = msgspec.structs.replace(self._gate.policy, **said)
        self.state.gate = self._gate
        try:
            yield
        finally:
            self.state.gate = own


def _ruled(event: Event) -> Outlook | None:
    """What a gate said of a call; None for any other event."""
    match event:
        case ToolAllowed():
            return "allowed"
        case PermissionRequested():
            return "asked"
        case ToolDenied(reason=reason) if reason in BY_POLICY:
            return "denied"
    return None
