"""An agent bound to code: its model opened, its tools at hand. Turns replies into facts and states into requests."""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.events.blocks import JsonObject, Reasoning, Text
from windlass.events.errors import KernelError, Refused, UsageError
from windlass.events.items import (
    AssistantItem,
    HistoryItem,
    ModelSettings,
    OutputSchema,
    ProposedCall,
    ToolSchema,
    UserItem,
)
from windlass.events.sessions import SetupBody
from windlass.events.specs import AgentRef, ModelRef, Setup, Terms, ToolSpec
from windlass.events.turns import ModelAsked, ModelReplied, OutputCheck, Prepared, ReplyBody, ReplyCall
from windlass.kernel.effects import CallModel
from windlass.kernel.state import State
from windlass.models.base import Model, ModelInfo, Reply, Request
from windlass.models.tokens import estimate_reply, estimate_text
from windlass.tools.canonical import digest
from windlass.tools.tool import AnyTool

from .agent import Agent
from .attached import Attached, weighed
from .conditions import judged
from .instructions import digest_of
from .pages import RECALL
from .taskstate import task_state

SUMMARY_INSTRUCTIONS = (
    "Summarise the conversation below for yourself, so that you can go on working from the summary alone. Keep: what "
    "the user wants, decisions and their reasons, facts and figures that were found, files and ids that matter, what "
    "is done, what is open. Leave out pleasantries and what was superseded. Write plain text."
)
SUMMARY_REQUEST = "Write the summary now."
SCHEMAS_KEPT_MAX = 256
"""How many sets of tools are kept as models are told of them."""
ANSWERED = ("stop", "stop_sequence", "tool_calls", "other", "error")
"""How an answer ends that the model itself took for one."""
NOTHING = Attached()
"""What is attached to an agent that is bound to no session yet: nothing, ever."""


class Told(msgspec.Struct, frozen=True, weakref=True):
    """Instructions as a model gets them, under the digest that the log knows them by."""

    digest: str
    text: str
    tokens: int


class Bound:
    """One agent with its code, shared by all its sessions in this process."""

    def __init__(self, agent: Agent, model: Model) -> None:
        self.agent = agent
        self.model = model
        self.tools: dict[str, AnyTool] = {tool.name: tool for tool in agent.toolset}
        self.by_model_name: dict[str, str] = {tool.model_name: tool.name for tool in agent.toolset}
        self.attached = NOTHING
        self._schemas: dict[tuple[str, ...], tuple[ToolSchema, ...]] = {}
        self._others: dict[str, Model] = {}
        self._given: dict[str, Model] = {}
        """Models besides the agent's own that were given as such: their giver closes them."""
        self._summary_model = self._summariser()
        self.own = Told(digest_of(agent.instructions), agent.instructions, estimate_text(agent.instructions))
        self._told: weakref.WeakValueDictionary[str, Told] = weakref.WeakValueDictionary()
        """Instructions other than the agent's own, as long as a session holds them."""
        self._output = self._output_validator()

    def for_session(self, attached: Attached) -> Bound:
        """The same agent for one session, with what this process added to that session."""
        made = copy.copy(self)
        made.attached = attached
        return made

    @property
    def ref(self) -> AgentRef:
        return AgentRef(name=self.agent.name, digest=self.agent.digest)

    @property
    def info(self) -> ModelInfo:
        return self.model.info

    def model_ref(self) -> ModelRef:
        info = self.info
        most = self.agent.model_settings.max_output_tokens or info.max_output_tokens or 16_384
        return ModelRef(
            name=info.name,
            provider=info.provider,
            model=info.model,
            window_tokens=info.window_tokens,
            max_output_tokens=min(most, info.max_output_tokens or most),
            price=info.price,
        )

    def specs(self) -> tuple[ToolSpec, ...]:
        """The agent's tools as the kernel knows them, weighed."""
        return tuple(weighed(tool) for tool in self.tools.values())

    def tool(self, state: State, name: str) -> AnyTool | None:
        """The code of a session's tool: exactly the version that the session has, or none."""
        spec = state.tools.get(name)
        if spec is None:
            return None
        own = self.tools.get(name)
        if own is not None and own.spec.digest == spec.digest:
            return own
        return self.attached.code.get((name, spec.digest))

    def canonical(self, state: State, shown: str) -> str:
        """The name of the tool that models know under this one."""
        name = self.by_model_name.get(shown, shown)
        spec = state.tools.get(name)
        if spec is not None and (spec.alias or name) == shown:
            return name
        return next((found for found, spec in state.tools.items() if (spec.alias or found) == shown), name)

    def setup(self) -> Setup:
        terms = self.terms
        return Setup(
            agent=self.ref,
            model=terms.model,
            tools=self.specs(),
            policy=terms.policy,
            limits=terms.limits,
            run_limits=terms.run_limits,
            settings=terms.settings,
            mode=terms.mode,
        )

    @functools.cached_property
    def terms(self) -> Terms:
        """What the agent's code says its sessions work by."""
        agent = self.agent
        settings = agent.settings
        if agent.output is not None and not settings.output_required:
            settings = msgspec.structs.replace(settings, output_required=True)
        if agent.archive is not None or RECALL in self.tools:
            settings = msgspec.structs.replace(settings, archive=True)
        if self._summary_model is not None:
            settings = msgspec.structs.replace(settings, summary_model=self._summary_model)
        return Terms(
            model=self.model_ref(),
            policy=agent.policy,
            limits=agent.session_budget.limits(),
            run_limits=agent.budget.limits(),
            settings=settings,
            mode=agent.mode,
        )

    def setup_body(self) -> SetupBody:
        return SetupBody(
            tools=tuple(tool.text for tool in self.tools.values()),
            knowledge=tuple(self.agent.knowledge),
            output_schema=self.agent.output_schema,
        )

    def knowledge_tokens(self) -> int:
        return sum(estimate_text(text) for text in self.agent.knowledge)

    def tell(self, text: str) -> Told:
        """Makes a text known as instructions, for as long as the caller holds what it gets."""
        if text == self.own.text:
            return self.own
        digest = digest_of(text)
        found = self._told.get(digest)
        if found is None:
            found = self._told[digest] = Told(digest, text, estimate_text(text))
        return found

    def told(self, state: State) -> str:
        """The recorded instructions of a session: what its log says is what its model gets."""
        if state.instructions_digest == self.own.digest:
            return self.own.text
        found = self._told.get(state.instructions_digest)
        if found is None:
            raise KernelError(f"session {state.session_id!r}: event {state.instructions_seq} is not in memory")
        return found.text

    def known_model(self, name: str) -> ModelRef:
        """A model by name, with what the kernel must know of it. Raises `Refused` for a name that means nothing."""
        if name == self.info.name:
            return self.model_ref()
        try:
            info = self.model_for(name).info
        except UsageError as error:
            raise Refused("unknown_model", str(error)) from error
        return _ref(info)

    def _summariser(self) -> ModelRef | None:
        """The model that is to write summaries, where the agent names one. Raises `UsageError` for an unknown name."""
        wanted = self.agent.summary_model
        if wanted is None:
            return None
        if isinstance(wanted, str):
            return _ref(self.model_for(wanted).info)
        self._given[wanted.info.name] = wanted
        return _ref(wanted.info)

    def model_for(self, name: str) -> Model:
        """The model that a request names: the agent's own, or another one that a session changed to."""
        if name == self.info.name:
            return self.model
        found = self.attached.models.get(name) or self._given.get(name) or self._others.get(name)
        if found is None:
            from windlass.models.catalogue import open_model

            found = self._others[name] = open_model(name)
        return found

    # --- requests ---

    def request(self, state: State, effect: CallModel, items: list[HistoryItem], wanted: str = "") -> Request:
        """What is sent for an effect, from the state and the rendered history. `wanted` is what somebody asked of a
        summary."""
        if effect.lane == "compact":
            return self._summary_request(state, effect, items, wanted)
        agent = self.agent
        settings = msgspec.structs.replace(agent.model_settings, max_output_tokens=effect.output_tokens)
        if state.turn is not None and state.turn.wrap_up:
            settings = msgspec.structs.replace(settings, tool_choice="none")
        output = self.agent.output_schema if state.output_required() else None
        return Request(
            model=effect.model,
            instructions=self.told(state),
            knowledge=tuple(agent.knowledge),
            items=items,
            task_state=task_state(state),
            tools=self.offered(state),
            output=self._output_schema(output) if output is not None else None,
            settings=settings,
            session=state.session_id,
            lane="main",
            attempt=effect.request_id,
        )

    def _output_schema(self, schema: JsonObject) -> OutputSchema:
        from .output import strict

        return OutputSchema(name="answer", json_schema=schema, strict=strict(schema))

    def _summary_request(self, state: State, effect: CallModel, items: list[HistoryItem], wanted: str) -> Request:
        text = f"{SUMMARY_REQUEST}\nWhat was asked of it: {wanted}" if wanted else SUMMARY_REQUEST
        asked = UserItem(key="summary-request", content=(Text(text=text),))
        span = [*items[: state.compaction.items], asked]
        return Request(
            model=effect.model,
            instructions=state.settings.summary_instructions or SUMMARY_INSTRUCTIONS,
            items=span,
            settings=self._settings_aside(effect),
            session=state.session_id,
            lane="compact",
            attempt=effect.request_id,
        )

    def aside_request(self, state: State, effect: CallModel, asked: ModelAsked) -> Request:
        """What is sent for a tool or a judge: its words alone, nothing of the conversation."""
        assert asked.body is not None
        body = asked.body
        return Request(
            model=effect.model,
            instructions=body.instructions,
            items=[UserItem(key="asked", content=(Text(text=body.prompt),))],
            output=self._output_schema(body.output_schema) if body.output_schema is not None else None,
            settings=self._settings_aside(effect),
            session=state.session_id,
            lane=effect.lane,
            attempt=effect.request_id,
        )

    def _settings_aside(self, effect: CallModel) -> ModelSettings:
        """What a request outside of the conversation is sent with: the agent's settings are for its own model alone."""
        own = self.agent.model_settings if effect.model == self.info.name else ModelSettings()
        return msgspec.structs.replace(own, max_output_tokens=effect.output_tokens, tool_choice="auto")

    def offered(self, state: State) -> tuple[ToolSchema, ...]:
        """The tools that a model is told of in this state, in the order in which they were set."""
        only = state.run.options.tools if state.run is not None and state.run.options is not None else None
        tools = [
            tool
            for name, spec in state.tools.items()
            if (not spec.deferred or name in state.loaded)
            and (only is None or name in only or spec.runs == "kernel")
            and (tool := self.tool(state, name)) is not None
        ]
        digests = tuple(tool.spec.digest for tool in tools)
        found = self._schemas.get(digests)
        if found is None:
            if len(self._schemas) >= SCHEMAS_KEPT_MAX:
                self._schemas.clear()
            found = self._schemas[digests] = tuple(tool.schema for tool in tools)
        return found

    # --- facts ---

    def replied(self, state: State, effect: CallModel, reply: Reply, *, prepare: bool) -> ModelReplied:
        """The fact of a reply, its calls prepared for the gate unless hooks must see them first."""
        calls = tuple(self._call(state, call, prepare=prepare) for call in reply.calls)
        body = ReplyBody(
            blocks=reply.blocks,
            calls=calls,
            output=self._checked(state, reply) if not calls and effect.lane == "main" else None,
            quotas=reply.quotas,
            provider_data=reply.provider_data,
        )
        said = [block for block in reply.blocks if isinstance(block, Text)]
        tokens = max(reply.usage.output_tokens, 1)
        if reply.usage.estimated:
            tokens = estimate_reply(AssistantItem(content=tuple(said)))
        return ModelReplied(
            request_id=effect.request_id,
            lane=effect.lane,
            finish=reply.finish,
            usage=reply.usage,
            model=reply.model,
            provider=reply.provider,
            provider_request_id=reply.request_id,
            response_id=reply.response_id,
            calls=len(calls),
            empty=not calls and _says_nothing(reply, effect.lane),
            tokens=tokens,
            bytes=sum([len(block.text) for block in said]),
            duration_ms=reply.duration_ms,
            first_output_ms=reply.first_output_ms,
            body=body,
        )

    def _call(self, state: State, call: ProposedCall, *, prepare: bool) -> ReplyCall:
        """A call under its canonical name, with what the gate needs to know."""
        name = self.canonical(state, call.tool)
        if name != call.tool:
            call = msgspec.structs.replace(call, tool=name)
        if not prepare or call.malformed is not None:
            return ReplyCall(call=call)
        return ReplyCall(call=call, prepared=self.prepared(state, name, call.args, call.text))

    def prepared(self, state: State, name: str, args: JsonObject | None, text: str | None) -> Prepared:
        """What the host finds out about a call before the gate."""
        tool = self.tool(state, name)
        if tool is None:
            return Prepared(digest=digest(args if args is not None else text))
        checked = tool.check(args if args is not None else {})
        matched, unjudged = judged(state.policy, name, checked.args)
        return Prepared(digest=checked.digest, errors=checked.errors, matched=matched, unjudged=unjudged)

    def _output_validator(self) -> Any:
        if self.agent.output is None:
            return None
        from .output import Output

        return Output(self.agent.output, self.agent.output_schema or {})

    def _checked(self, state: State, reply: Reply) -> OutputCheck | None:
        if self._output is None or not state.output_required():
            return None
        text = "".join(block.text for block in reply.blocks if isinstance(block, Text))
        found: OutputCheck = self._output.check(text)
        return found

    def parse_output(self, value: Any) -> Any:
        """An extracted value as the agent's output type."""
        return self._output.parse(value) if self._output is not None else None

    async def close(self) -> None:
        """Closes the models that were opened here; one that was given is its giver's to close."""
        given = not (self.agent.model is None or isinstance(self.agent.model, str))
        for model in (*(() if given else (self.model,)), *self._others.values()):
            await model.close()


def _ref(info: ModelInfo) -> ModelRef:
    """A model as the kernel must know it."""
    return ModelRef(
        name=info.name,
        provider=info.provider,
        model=info.model,
        window_tokens=info.window_tokens,
        max_output_tokens=info.max_output_tokens or 16_384,
        price=info.price,
    )


def _says_nothing(reply: Reply, lane: str) -> bool:
    """Whether there is nothing in a reply for anybody to read: thoughts and blanks are no answer, and whatever is not
    text is no summary. What was cut off, filtered or refused says so by itself."""
    if lane == "compact":
        return not any(isinstance(block, Text) and block.text.strip() for block in reply.blocks)
    if not reply.blocks or reply.finish not in ANSWERED:
        return not reply.blocks
    return all(isinstance(b, Reasoning) or (isinstance(b, Text) and not b.text.strip()) for b in reply.blocks)


def bound_names(bound: Mapping[str, Bound]) -> str:
    """The names of bound agents, for error messages."""
    return ", ".join(sorted(bound)) or "none"
