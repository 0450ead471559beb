"""Performs one effect and reports what came of it as a fact. Knows nothing of the log; never decides."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

import msgspec

from windlass.events.base import Command, Fact
from windlass.events.blocks import JsonObject, Text
from windlass.events.calls import (
    CallBody,
    PreparedBody,
    ResultBody,
    ToolFinished,
    ToolPrepared,
    ToolSuspended,
)
from windlass.events.errors import CodecError, Refused, UsageError
from windlass.events.failures import Failure, FailureKind, HookPoint, failure
from windlass.events.hooks import HookRuling
from windlass.events.items import HistoryItem, ModelSettings
from windlass.events.live import AttemptSuperseded, CallDelta, Live, ReasoningDelta, TextDelta
from windlass.events.permissions import PermissionRequested
from windlass.events.questions import QuestionRequested
from windlass.events.sessions import NoticeGiven
from windlass.events.turns import ModelAsked, ModelFailed, ModelReplied, Prepared
from windlass.events.usage import Usage
from windlass.kernel.effects import AskPerson, CallModel, PageOut, PrepareCall, RunTool
from windlass.kernel.state import Call
from windlass.models.base import CallPartDelta, CredentialUse, ReasoningPart, RefusalPart, Reply, TextPart
from windlass.models.tokens import estimate_block, estimate_text
from windlass.tools.context import ToolContext

from .admission import check_size
from .approvals import Approve, Deny, PermissionAsk, QuestionAsk, command_for
from .hooks import Hooks, Moment
from .recall import RECALL_TOOLS, perform, pointed
from .summarising import asked_of_summary

if TYPE_CHECKING:
    from windlass.tools.context import Seat
    from windlass.tools.outcome import Outcome
    from windlass.tools.plane import Plane

    from .approvals import Approver
    from .binding import Bound
    from .owner import Owner
    from .paging import Paging


ERASED = "the arguments of this call were erased before it could run"
NOTICE_CHARS_MAX = 500
"""How much of what an approver raised is put on record."""
MESSAGES_BYTES_MAX = 96 * 1024
"""How much of a request's messages a hook is shown."""


class Done:
    """A fact with the blobs that it refers to, ready to be taken."""

    __slots__ = ("blobs", "fact")

    def __init__(self, fact: Fact, blobs: dict[str, bytes] | None = None) -> None:
        self.fact = fact
        self.blobs = blobs


class Performer:
    """The hands of one session's driver."""

    def __init__(
        self,
        owner: Owner,
        bound: Bound,
        plane: Plane,
        seat: Seat,
        approver: Approver | None,
        hooks: Hooks,
        paging: Paging,
    ) -> None:
        self.owner = owner
        self.bound = bound
        self.plane = plane
        self.seat = seat
        self.approver = approver
        self._hooks = hooks
        self.paging = paging
        self.partial_text: list[str] = []
        self._writing = ""

    @property
    def hooks(self) -> Hooks:
        """The agent's hooks, and those that were given for the current run."""
        attached = self.bound.attached
        return attached.hooks_of(self.owner.state, self._hooks) if attached.hooks else self._hooks

    async def quiet(self) -> None:
        """Lets observers end what they were told, for a moment."""
        await self._hooks.observing.quiet()

    def hooks_for(self, command_id: str) -> Hooks:
        """The agent's hooks, and those that a prompt brings along."""
        brought = self.bound.attached.hooks.get(command_id)
        return self._hooks.joined(brought) if brought else self._hooks

    def answers(self, effect: AskPerson) -> bool:
        """Whether there is anybody here who might answer."""
        return self.approver is not None or (effect.kind == "permission" and self.hooks.rule_at("permission"))

    # --- models ---

    async def call_model(self, effect: CallModel) -> Done | None:
        """Sends a request and waits for its one reply or failure, streaming what comes; None where it is not owed any
        more."""
        owner, ports = self.owner, self.owner.ports
        request = await self._request(effect)
        if request is None:
            return None
        before, denied = await self._before_model(request, effect)
        shown: list[HookRuling] = []
        if self.hooks.at("credential"):
            request.credential_guard = functools.partial(self._credential, shown)
        if denied is not None:
            return Done(
                ModelFailed(
                    request_id=effect.request_id,
                    lane=effect.lane,
                    attempt=effect.attempt,
                    failure=denied,
                    hooks=before,
                )
            )
        if not await self._may_begin(self._is_requested, effect):
            return None
        main = effect.lane == "main"
        if main:
            self.partial_text = []
        started = ports.monotonic_ms()
        ports.point("before_model")
        try:
            answer = await self._stream(request, effect)
        except Exception as error:  # a model that raises is our bug or its author's; the run must learn of it
            answer = failure("internal", f"the model raised {type(error).__name__}: {error}", retryable=False)
        ports.point("after_model")
        duration = max(0, ports.monotonic_ms() - started)
        if isinstance(answer, Reply):
            fact = self.bound.replied(owner.state, effect, answer, prepare=not self.hooks.at("before_tool"))
            if rulings := (*before, *shown, *await self._after_model(fact, effect)):
                fact = cast(ModelReplied, _with(fact, hooks=rulings))
            if fact.duration_ms == 0:
                fact = cast(ModelReplied, _with(fact, duration_ms=duration))
            return Done(fact, dict(answer.generated) or None)
        visible = main and bool(self.partial_text)
        if visible and owner.hub.hearing:
            owner.hub.live([AttemptSuperseded(request_id=effect.request_id, reason="failed", after_seq=owner.hub.seq)])
        return Done(
            ModelFailed(
                request_id=effect.request_id,
                lane=effect.lane,
                attempt=effect.attempt,
                failure=answer,
                usage=self._used_up(effect) if visible else None,
                duration_ms=duration,
                visible=visible,
                sample=ports.sample(),
                hooks=(*before, *shown),
            )
        )

    async def _request(self, effect: CallModel) -> Any:
        """What is to be sent; None where it is not owed any more."""
        owner = self.owner
        if effect.asked_seq is not None:
            asked = await owner.event(effect.asked_seq)
            assert isinstance(asked, ModelAsked)
            return self.bound.aside_request(owner.state, effect, asked)
        wanted = await asked_of_summary(owner) if effect.lane == "compact" else ""
        items = await self._items()
        if effect.request_id not in owner.state.requests:
            return None
        return self.bound.request(owner.state, effect, items, wanted)

    def _used_up(self, effect: CallModel) -> Usage | None:
        """What a reply that broke off has cost, as far as we can tell: providers charge for what they sent."""
        request = self.owner.state.requests.get(effect.request_id)
        if request is None:
            return None
        written = estimate_text("".join(self.partial_text))
        return Usage(input_tokens=request.input_tokens, output_tokens=written, estimated=True)

    async def _items(self) -> list[HistoryItem]:
        """The history as the log has it: nothing of an append that is still under way."""
        while True:
            items = await self.owner.items()
            if not self.owner.busy:
                return items

    async def _may_begin(self, owed: Callable[[Any], bool], effect: CallModel | RunTool) -> bool:
        """Whether an effect may begin at this very moment: it is still owed, as far as the log says, and nobody else
        can have taken the session. Raises `StaleEpoch` where somebody has."""
        while True:
            await self.owner.settled()
            if not owed(effect):
                return False
            if self.owner.in_lease:
                return True
            await self.owner.insist(self.owner.keep)

    def moment(self, point: HookPoint, value: Any, **more: Any) -> Moment:
        """What hooks at a point are told."""
        state = self.owner.state
        run_id = state.run.run_id if state.run is not None else ""
        return Moment(point=point, session=state.session_id, agent=state.agent.name, run_id=run_id, value=value, **more)

    async def _before_model(self, request: Any, effect: CallModel) -> tuple[tuple[HookRuling, ...], Failure | None]:
        """Lets hooks see a request, change its settings or stop it. What it says is the log's alone to change."""
        if effect.lane != "main" or not self.hooks.at("before_model"):
            return (), None
        shown = {
            "model": effect.model,
            "items": len(request.items),
            "messages": _newest(request.items),
            "settings": msgspec.to_builtins(request.settings),
        }
        ruled = await self.hooks.run(self.moment("before_model", shown))
        rulings = tuple(ruled.rulings)
        if ruled.denied is not None:
            return rulings, failure("hook_denied", ruled.denied.message or f"denied by {ruled.denied.hook_id}")
        if not ruled.changed:
            return rulings, None
        try:
            changed = msgspec.convert(ruled.value["settings"], ModelSettings)
        except (msgspec.ValidationError, TypeError, KeyError) as error:
            told = f"a hook gave settings that no request can be sent with: {type(error).__name__}: {error}"
            return rulings, failure("hook_denied", told)
        most = min(changed.max_output_tokens or effect.output_tokens, effect.output_tokens)
        request.settings = msgspec.structs.replace(changed, max_output_tokens=most)
        return rulings, None

    async def _credential(self, rulings: list[HookRuling], use: CredentialUse) -> Failure | None:
        """Lets hooks see which credential a request would be sent with, and stop it. They never see its value."""
        ruled = await self.hooks.run(self.moment("credential", msgspec.to_builtins(use)))
        rulings += ruled.rulings
        denied = ruled.denied
        if denied is None:
            return None
        told = denied.message or f"denied by {denied.hook_id}"
        return failure("hook_denied", told, provider=use.endpoint, model=use.model)

    async def _after_model(self, fact: ModelReplied, effect: CallModel) -> tuple[HookRuling, ...]:
        if effect.lane != "main" or not self.hooks.at("after_model"):
            return ()
        shown = msgspec.to_builtins(fact.body)
        return tuple((await self.hooks.run(self.moment("after_model", shown))).rulings)

    async def _stream(self, request: Any, effect: CallModel) -> Reply | Failure:
        hub, name = self.owner.hub, effect.request_id
        main = effect.lane == "main"
        index = 0
        if main:
            self._writing = name
            hub.so_far = self._so_far
        stream = self.bound.model_for(effect.model).stream(request)
        try:
            async for piece in stream:
                if isinstance(piece, Reply | Failure):
                    return piece
                deltas = piece if isinstance(piece, list) else [piece]
                if main:
                    self._keep(deltas)
                    if hub.hearing:
                        hub.live(_live(deltas, name, hub.seq, index))
                    index += len(deltas)
        finally:
            if main:
                hub.so_far = None
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        return failure("truncated_reply", "the model's stream ended without an answer")

    def _so_far(self) -> list[Live]:
        """What the model has written of the answer that is under way."""
        text = "".join(self.partial_text)
        return [TextDelta(request_id=self._writing, text=text, after_seq=self.owner.hub.seq)] if text else []

    def _keep(self, deltas: list[Any]) -> None:
        for delta in deltas:
            if type(delta) is TextPart:
                self.partial_text.append(delta.text)

    # --- tools ---

    async def prepare(self, effect: PrepareCall) -> Done | None:
        """Looks up what the gate needs to know of a call; None where it is not owed any more."""
        state = self.owner.state
        if effect.call_id not in state.calls:
            return None
        body = await self.arguments(effect.call_id)
        if body is None:
            prepared = Prepared(digest="", errors=(ERASED,))
            return Done(ToolPrepared(call_id=effect.call_id, digest="", body=PreparedBody(prepared=prepared)))
        prepared = self.bound.prepared(state, effect.tool, body.args, body.text)
        rulings: tuple[HookRuling, ...] = ()
        changed = False
        if not prepared.errors and self.hooks.at("before_tool", effect.tool):
            shown = body.args if body.text is None else body.text
            moment = self.moment("before_tool", shown, call_id=effect.call_id, tool=effect.tool)
            ruled = await self.hooks.run(moment)
            rulings, changed = tuple(ruled.rulings), ruled.changed
            if changed:
                # What a hook made of the arguments is checked like what a model wrote.
                body = CallBody(args=ruled.value) if body.text is None else CallBody(text=ruled.value)
                prepared = self.bound.prepared(state, effect.tool, body.args, body.text)
        return Done(
            ToolPrepared(
                call_id=effect.call_id,
                digest=prepared.digest,
                changed=changed,
                hooks=rulings,
                body=PreparedBody(prepared=prepared, args=body.args, text=body.text),
            )
        )

    async def run_tool(self, effect: RunTool) -> Done | None:
        """Runs a tool under its key; None where it is not owed any more."""
        owner, ports = self.owner, self.owner.ports
        tool = self.bound.tool(owner.state, effect.tool)
        if tool is None:
            told = f"the tool {effect.tool!r} is not available in this process"
            return Done(_unavailable(effect, "tool_unavailable", told))
        if effect.call_id not in owner.state.calls:
            return None
        body = await self.arguments(effect.call_id)
        if body is None:
            return Done(_unavailable(effect, "tool_arguments", ERASED))
        if not await self._may_begin(self._is_started, effect):
            return None
        state = owner.state
        context = ToolContext(
            session=state.session_id,
            call_id=effect.call_id,
            tool=effect.tool,
            run_id=state.run.run_id if state.run is not None else "",
            agent=state.agent.name,
            epoch=owner.epoch,
            attempt=effect.attempt,
            depth=state.depth,
            seat=self.seat,
        )
        started = ports.monotonic_ms()
        ports.point("before_tool")
        if effect.tool in RECALL_TOOLS and tool.options.source == "builtin":
            outcome = await perform(effect.tool, body.args or {}, owner, self.bound, self.paging)
        else:
            outcome = await self.plane.run(tool, body, context)
        ports.point("after_tool")
        outcome, rulings = await self._after_tool(effect, outcome)
        if outcome.spooled and "read_result" in state.tools:
            outcome = pointed(outcome, effect.call_id)
        tokens = sum(estimate_block(block) for block in (outcome.body.content if outcome.body else ()))
        duration = max(0, ports.monotonic_ms() - started)
        fact = outcome.fact(effect.call_id, duration_ms=duration, tokens=tokens, hooks=rulings)
        blobs = {blob.ref.digest: blob.read() for blob in outcome.blobs}
        for blob in outcome.blobs:
            blob.close()
        return Done(fact, blobs or None)

    def _is_requested(self, effect: CallModel) -> bool:
        return effect.request_id in self.owner.state.requests

    def _is_started(self, effect: RunTool) -> bool:
        call = self.owner.state.calls.get(effect.call_id)
        return call is not None and call.status == "started" and call.attempt == effect.attempt

    async def _after_tool(self, effect: RunTool, outcome: Outcome) -> tuple[Outcome, tuple[HookRuling, ...]]:
        """Lets hooks see a result, change its text or keep it from the model."""
        if outcome.status != "finished" or not self.hooks.at("after_tool", effect.tool):
            return outcome, ()
        shown = {"ok": outcome.ok, "text": outcome.text}
        ruled = await self.hooks.run(self.moment("after_tool", shown, call_id=effect.call_id, tool=effect.tool))
        rulings = tuple(ruled.rulings)
        if ruled.denied is not None:
            told = f"the result is withheld: {ruled.denied.message or ruled.denied.hook_id}"
            kept = ResultBody(content=(Text(text=told),), display=outcome.body.content if outcome.body else None)
            return msgspec.structs.replace(outcome, ok=False, body=kept, size=len(told)), rulings
        if ruled.changed:
            text, ok = str(ruled.value.get("text", "")), bool(ruled.value.get("ok", outcome.ok))
            kept = ResultBody(content=(Text(text=text),), display=outcome.body.content if outcome.body else None)
            return msgspec.structs.replace(outcome, ok=ok, body=kept, size=len(text)), rulings
        return outcome, rulings

    async def arguments(self, call_id: str) -> CallBody | None:
        """The arguments of a call, as its reply, its person or its hooks left them."""
        return await arguments_of(self.owner.state.calls[call_id], self.owner.event)

    # --- the archive ---

    async def page_out(self, effect: PageOut) -> Done:
        """Hands what left the history to the archive. The log has it in any case, so nothing waits for this."""
        return Done(await self.paging.out(effect.paged_seq))

    # --- people ---

    async def ask(self, effect: AskPerson) -> Command | None:
        """Asks whoever may answer, hooks before people; None where nobody is there."""
        state = self.owner.state
        found = state.asks.get(effect.ask_id)
        if found is None:
            return None
        event = await self.owner.event(found.seq)
        asked = _asked(state.session_id, event)
        if asked is None:
            return None
        ruled = await self._permission(asked) if isinstance(asked, PermissionAsk) else None
        if ruled is not None or self.approver is None:
            return ruled
        try:
            said: Any = self.approver(asked)
            verdict = await said if inspect.isawaitable(said) else said
            command = command_for(asked, verdict, command_id=f"approver:{self.owner.ports.fresh_id()}")
            if command is not None:
                check_size(command)
            return command
        except Exception as error:  # whoever asks people may break; the request stays open for others to answer
            told = f"the approver raised {type(error).__name__}: {error}"[:NOTICE_CHARS_MAX]
            if isinstance(error, UsageError | Refused):
                told = str(error)
            await self.owner.take(NoticeGiven(level="error", code="approver_failed", message=told))
            return None

    async def _permission(self, asked: PermissionAsk) -> Command | None:
        """What hooks say to a call that needs somebody's word; None where they leave it to people."""
        if not self.hooks.rule_at("permission", asked.tool):
            return None
        shown = msgspec.to_builtins(asked)
        moment = self.moment("permission", shown, call_id=asked.call_id, tool=asked.tool)
        ruled = await self.hooks.run(moment, tell=False)
        ruling = ruled.denied or ruled.allowed
        if ruling is None:
            return None
        no = Deny(feedback=ruling.message or f"denied by {ruling.hook_id}", stop=ruling.fatal)
        verdict = Approve() if ruled.denied is None else no
        name = f"hook:{self.owner.ports.fresh_id()}"
        return command_for(asked, verdict, command_id=name, actor=f"hook:{ruling.hook_id}")


async def arguments_of(call: Call, event_at: Callable[[int], Awaitable[Any]]) -> CallBody | None:
    """What a call was given: as hooks changed it, else as the reply or the person has it. None where that was erased:
    no other arguments may take its place."""
    source = await event_at(call.source_seq if call.changed_seq is None else call.changed_seq)
    if source.body is None:
        return None
    if isinstance(source, ToolPrepared):
        return CallBody(args=source.body.args, text=source.body.text)
    if isinstance(source, ModelReplied):
        found = source.body.calls[call.ordinal].call
        return CallBody(args=found.args, text=found.text)
    return CallBody(args=source.body.args)


def _asked(session: str, event: Any) -> PermissionAsk | QuestionAsk | None:
    if isinstance(event, PermissionRequested):
        return PermissionAsk(
            session=session,
            request_id=event.request_id,
            call_id=event.call_id,
            tool=event.tool,
            digest=event.digest,
            detail=event.body.detail if event.body is not None else None,
            why=event.body.why if event.body is not None else "",
        )
    if isinstance(event, QuestionRequested) and event.body is not None:
        return QuestionAsk(
            session=session, question_id=event.question_id, call_id=event.call_id, kind=event.kind, body=event.body
        )
    return None


def instead_of(fact: Fact, why: CodecError) -> Fact | None:
    """What is reported where an outcome cannot be kept as it came; None where nothing else can be said."""
    if isinstance(fact, ModelReplied):
        told = failure("reply_too_large", f"the answer cannot be kept: {why}", retryable=False, provider=fact.provider)
        return ModelFailed(
            request_id=fact.request_id,
            lane=fact.lane,
            failure=told,
            usage=_sound(fact.usage),
            duration_ms=fact.duration_ms,
        )
    if isinstance(fact, ModelFailed):
        told = failure("internal", f"the model failed, and how cannot be kept: {why}", retryable=False)
        return ModelFailed(request_id=fact.request_id, lane=fact.lane, attempt=fact.attempt, failure=told)
    if isinstance(fact, ToolFinished | ToolSuspended):
        told = failure("tool_result_invalid", f"the result cannot be kept: {why}")
        body = ResultBody(content=(Text(text="the tool ran, but its result cannot be kept"),))
        return ToolFinished(call_id=fact.call_id, ok=False, failure=told, error_code=told.kind, tokens=16, body=body)
    return None


def _sound(usage: Usage) -> Usage | None:
    """A usage as far as it can be kept: models are other people's code."""
    try:
        return msgspec.convert(msgspec.to_builtins(usage), Usage)
    except msgspec.ValidationError:
        return None


def _unavailable(effect: RunTool, kind: FailureKind, told: str) -> ToolFinished:
    """The result of a call that cannot be run here."""
    return ToolFinished(
        call_id=effect.call_id,
        ok=False,
        failure=failure(kind, told),
        error_code=kind,
        tokens=16,
        body=ResultBody(content=(Text(text=told),)),
    )


def _live(deltas: list[Any], request_id: str, seq: int, index: int) -> list[Live]:
    found: list[Live] = []
    for offset, delta in enumerate(deltas):
        place = index + offset
        kind = type(delta)
        if kind is TextPart or kind is RefusalPart:
            found.append(TextDelta(request_id=request_id, text=delta.text, after_seq=seq, index=place))
        elif kind is ReasoningPart:
            found.append(ReasoningDelta(request_id=request_id, text=delta.text, after_seq=seq, index=place))
        elif kind is CallPartDelta:
            found.append(
                CallDelta(
                    request_id=request_id,
                    ordinal=delta.ordinal,
                    tool=delta.tool,
                    fragment=delta.fragment,
                    after_seq=seq,
                    index=place,
                )
            )
    return found


def _newest(items: list[HistoryItem]) -> list[Any]:
    """The messages of a request as plain data: as many of the newest as a hook's payload has room for."""
    found: list[Any] = []
    room = MESSAGES_BYTES_MAX
    for item in reversed(items):
        room -= len(msgspec.json.encode(item))
        if room < 0:
            break
        found.append(msgspec.to_builtins(item))
    return found[::-1]


def _with(fact: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(fact, **changes)


Report = Callable[[Done], Awaitable[None]]
Args = JsonObject
