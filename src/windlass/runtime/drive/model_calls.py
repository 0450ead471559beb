"""Requests to models: sent as the log says, streamed to readers while they are answered, reported as one fact.

Hooks may see a request before it is sent, the credential that it is sent with, and the reply.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events import known_types
from windlass.events.errors import CodecError, Refused, StoreError
from windlass.events.hooks import HookRuling
from windlass.events.live import AttemptSuperseded, CallDelta, Live, ReasoningDelta, TextDelta
from windlass.events.sessions import NoticeGiven
from windlass.events.stored.known_secrets import SECRETS, HiddenStream
from windlass.events.turns import ModelAsked, ModelFailed, ModelReplied
from windlass.events.values.failures import Failure, failure
from windlass.events.values.items import HistoryItem, ModelSettings
from windlass.events.values.usage import Usage
from windlass.kernel.effects import CallModel
from windlass.models.base import CallPartDelta, CredentialUse, ReasoningPart, RefusalPart, Reply, Request, TextPart
from windlass.models.tokens import estimate_text
from windlass.runtime.bind import model_requests, reply_facts
from windlass.runtime.context.summary_request import asked_of_summary
from windlass.runtime.streams.blob_reader import blob_reader
from windlass.tools.planes.task_stops import Foreign

from .effect_outcome import Done
from .shown_deltas import ShownDeltas
from .written_text import PIECES_MAX, WrittenText

if TYPE_CHECKING:
    from windlass.runtime.bind.bound_agent import Bound
    from windlass.runtime.hooks.session_hooks import SessionHooks
    from windlass.runtime.owner.owner import Owner

MESSAGES_BYTES_MAX = 96 * 1024
"""How much of a request's messages a hook is shown."""
ENDS = (Reply, Failure)
"""What ends a stream: one of them comes last."""
PIECES = frozenset({TextPart, ReasoningPart, RefusalPart, CallPartDelta})
"""What comes before that, alone or in lists."""


class ModelCalls:
    """Calls the models of one session."""

    def __init__(self, owner: Owner, bound: Bound, hooks: SessionHooks) -> None:
        self._owner = owner
        self._bound = bound
        self._hooks = hooks
        self._blobs = blob_reader(owner.store, owner.key.tenant)
        self._written = WrittenText()
        """What has come of the answer to the conversation that is under way, or was last."""
        self._writing = ""
        self._shown = ShownDeltas(owner.hub)

    async def call(self, effect: CallModel) -> Done | None:
        """Sends a request and waits for its one reply or failure, streaming what comes; None if it is not owed any
        more."""
        owner, ports = self._owner, self._owner.ports
        request = await self._request(effect)
        if request is None:
            return None
        if isinstance(request, Failure):
            return _unsent(effect, request)
        request.blobs = self._blobs
        before, denied = await self._before_model(request, effect)
        shown: list[HookRuling] = []
        if self._hooks.current.at("credential"):
            request.credential_guard = functools.partial(self._credential, shown)
        if denied is not None:
            return _unsent(effect, denied, before)
        if not await owner.may_begin(lambda: effect.request_id in owner.state.requests.open):
            return None
        main = effect.lane == "main"
        if main:
            self._written = WrittenText()
        started = ports.monotonic_ms()
        ports.point("before_model")
        try:
            async with Foreign():
                answer = await self._stream(request, effect)
        except Exception as error:  # a model that raises is our bug or its author's; the run must learn of it
            answer = failure("internal", f"the model raised {type(error).__name__}: {error}", retryable=False)
        ports.point("after_model")
        duration = max(0, ports.monotonic_ms() - started)
        if isinstance(answer, Reply):
            fact = reply_facts.replied(
                self._bound, owner.state, effect, answer, prepare=not self._hooks.current.at("before_tool")
            )
            if rulings := (*before, *shown, *await self._after_model(fact, effect)):
                fact = msgspec.structs.replace(fact, hooks=rulings)
            await self._warned(answer, effect)
            if fact.duration_ms == 0:
                fact = msgspec.structs.replace(fact, duration_ms=duration)
            return Done(fact, dict(answer.generated) or None)
        visible = main and bool(self.written)
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

    async def _request(self, effect: CallModel) -> Request | Failure | None:
        """What is to be sent, or why it cannot be; None if it is not owed any more."""
        owner = self._owner
        if effect.asked_seq is not None:
            asked = await owner.event(effect.asked_seq)
            assert isinstance(asked, ModelAsked)
            if asked.body is None:
                told = f"what was asked at event {effect.asked_seq} was erased before it was sent"
                return failure("invalid_request", told, model=effect.model)
            return model_requests.aside_request(self._bound, owner.state, effect, asked.body)
        wanted = await asked_of_summary(owner) if effect.lane == "compact" else ""
        items = await self._items()
        if effect.request_id not in owner.state.requests.open:
            return None
        return model_requests.request(self._bound, owner.state, effect, items, wanted)

    async def _warned(self, reply: Reply, effect: CallModel) -> None:
        """Puts on record what was odd about an answer that is taken all the same."""
        for message in reply.warnings:
            notice = NoticeGiven(
                level="warning", code="model_reply", message=message, data={"request_id": effect.request_id}
            )
            with contextlib.suppress(Refused, StoreError, CodecError):
                await self._owner.take(notice)

    def _used_up(self, effect: CallModel) -> Usage | None:
        """What a reply that broke off has cost, as far as we can tell: providers charge for what they sent."""
        request = self._owner.state.requests.open.get(effect.request_id)
        if request is None:
            return None
        written = estimate_text(self.written)
        return Usage(input_tokens=request.input_tokens, output_tokens=written, estimated=True)

    async def _items(self) -> list[HistoryItem]:
        """The history as the log has it: nothing of an append that is still under way."""
        while True:
            items = await self._owner.items()
            if not self._owner.busy:
                return items

    async def _before_model(self, request: Any, effect: CallModel) -> tuple[tuple[HookRuling, ...], Failure | None]:
        """Lets hooks see a request, change its settings or stop it. What it says is the log's alone to change."""
        if effect.lane != "main" or not self._hooks.current.at("before_model"):
            return (), None
        shown = {
            "model": effect.model,
            "items": len(request.items),
            "messages": _newest(request.items),
            "settings": msgspec.to_builtins(request.settings),
        }
        ruled = await self._hooks.current.run(self._hooks.moment("before_model", shown))
        rulings = tuple(ruled.rulings)
        if ruled.denied is not None:
            return rulings, failure("hook_denied", ruled.denied.message or f"denied by {ruled.denied.hook_id}")
        if not ruled.changed:
            return rulings, None
        try:
            changed = known_types.convert(ruled.value["settings"], ModelSettings)
        except (msgspec.ValidationError, TypeError, KeyError) as error:
            told = f"a hook gave settings that no request can be sent with: {type(error).__name__}: {error}"
            return rulings, failure("hook_denied", told)
        most = min(changed.max_output_tokens or effect.output_tokens, effect.output_tokens)
        request.settings = msgspec.structs.replace(changed, max_output_tokens=most)
        return rulings, None

    async def _credential(self, rulings: list[HookRuling], use: CredentialUse) -> Failure | None:
        """Lets hooks see which credential a request would be sent with, and stop it. They never see its value."""
        ruled = await self._hooks.current.run(self._hooks.moment("credential", msgspec.to_builtins(use)))
        rulings += ruled.rulings
        denied = ruled.denied
        if denied is None:
            return None
        told = denied.message or f"denied by {denied.hook_id}"
        return failure("hook_denied", told, provider=use.endpoint, model=use.model)

    async def _after_model(self, fact: ModelReplied, effect: CallModel) -> tuple[HookRuling, ...]:
        if effect.lane != "main" or not self._hooks.current.at("after_model"):
            return ()
        shown = msgspec.to_builtins(fact.body)
        return tuple((await self._hooks.current.run(self._hooks.moment("after_model", shown))).rulings)

    async def _stream(self, request: Any, effect: CallModel) -> Reply | Failure:
        hub = self._owner.hub
        main = effect.lane == "main"
        if main:
            self._writing = effect.request_id
            self._shown = ShownDeltas(hub)
            hub.so_far = self._so_far
        written = self._written
        newest = written.newest
        stream = self._bound.model_for(effect.model).stream(request)
        try:
            async for piece in stream:
                if type(piece) in PIECES:  # before anything else: this is done for each piece of an answer
                    if main:
                        if hub.hearing or SECRETS.longest:
                            self._show([piece])
                        newest.append(piece)
                        if len(newest) >= PIECES_MAX:
                            written.shorten()
                elif isinstance(piece, list):
                    if main:
                        if hub.hearing or SECRETS.longest:
                            self._show(piece)
                        newest += piece
                        if len(newest) >= PIECES_MAX:
                            written.shorten()
                else:
                    assert isinstance(piece, ENDS), "what is no piece of an answer ends it"
                    return piece
        finally:
            if main:
                self._shown.end()
                hub.so_far = None
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        return failure("truncated_reply", "the model's stream ended without an answer")

    def _show(self, deltas: list[Any]) -> None:
        """Shows the next pieces, each with its place among all that were written."""
        self._shown.show(_live(deltas, self._writing, self._owner.hub.seq, self._written.count))

    def _so_far(self) -> list[Live]:
        """What the model has written of the answer that is under way."""
        text = HiddenStream(SECRETS).feed(self.written)
        return [TextDelta(request_id=self._writing, text=text, after_seq=self._owner.hub.seq)] if text else []

    @property
    def written(self) -> str:
        """What the model has written of the answer to the conversation that is under way, or was last."""
        return str(self._written)


def _unsent(effect: CallModel, why: Failure, hooks: tuple[HookRuling, ...] = ()) -> Done:
    """The end of a request that was never sent."""
    return Done(
        ModelFailed(request_id=effect.request_id, lane=effect.lane, attempt=effect.attempt, failure=why, hooks=hooks)
    )


def _live(deltas: list[Any], request_id: str, seq: int, index: int) -> list[Live]:
    live_deltas: list[Live] = []
    for offset, delta in enumerate(deltas):
        place = index + offset
        kind = type(delta)
        if kind is TextPart or kind is RefusalPart:
            live_deltas.append(TextDelta(request_id=request_id, text=delta.text, after_seq=seq, index=place))
        elif kind is ReasoningPart:
            live_deltas.append(ReasoningDelta(request_id=request_id, text=delta.text, after_seq=seq, index=place))
        elif kind is CallPartDelta:
            live_deltas.append(
                CallDelta(
                    request_id=request_id,
                    ordinal=delta.ordinal,
                    tool=delta.tool,
                    fragment=delta.fragment,
                    after_seq=seq,
                    index=place,
                )
            )
    return live_deltas


def _newest(items: list[HistoryItem]) -> list[Any]:
    """The messages of a request as plain data: as many of the newest as a hook's payload has room for."""
    messages: list[Any] = []
    room = MESSAGES_BYTES_MAX
    for item in reversed(items):
        room -= len(msgspec.json.encode(item))
        if room < 0:
            break
        messages.append(msgspec.to_builtins(item))
    return messages[::-1]
