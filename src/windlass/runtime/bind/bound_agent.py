"""An agent bound to code: its models opened, its tools at hand, its output type ready to check answers."""

from __future__ import annotations

import copy
import functools
import weakref
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.errors import KernelError, Refused, UsageError
from windlass.events.sessions import SetupBody
from windlass.events.values.items import ModelSettings, ToolSchema
from windlass.events.values.models import ModelRef
from windlass.events.values.setup import AgentRef, Routing, SessionOptions, Setup, Terms
from windlass.events.values.tools import ToolSpec
from windlass.kernel.state import State
from windlass.models.base import Model, ModelInfo
from windlass.models.tokens import estimate_text
from windlass.runtime.api.agent import Agent
from windlass.runtime.context.archive_page import RECALL
from windlass.runtime.workspace.instruction_files import digest_of
from windlass.tools.description import CallPlace
from windlass.tools.tool import AnyTool

from .local_code import LocalCode, weighed
from .other_models import OtherModels, reference, summary_model
from .selected_agent import chosen
from .session_options import NO_OPTIONS, applied, without_content

if TYPE_CHECKING:
    from windlass.runtime.mcp.session_servers import SessionServers
    from windlass.runtime.skills.session_skills import SessionSkills

SCHEMAS_KEPT_MAX = 256
"""How many sets of tools are kept as models are told of them."""
NOTHING = LocalCode()
"""What this process adds to an agent that is bound to no session yet: nothing, ever."""


class Told(msgspec.Struct, frozen=True, weakref=True):
    """Instructions as a model gets them, under the digest that the log knows them by."""

    digest: str
    text: str
    tokens: int


class Bound:
    """One agent with its code, shared by all its sessions in this process."""

    def __init__(self, agent: Agent, model: Model, options: SessionOptions = NO_OPTIONS) -> None:
        self.agent = agent
        self.model = model
        self.options = options
        """What is otherwise here than the agent's code says."""
        self.own_agent = agent
        """The agent itself, also while a specialist runs the session in its place."""
        self.specialists: dict[str, Bound] = {}
        """Its specialists, bound too."""
        self._variants: dict[bytes, Bound] = {}
        """The same agent with the options of some of its sessions."""
        self.tools: dict[str, AnyTool] = {tool.name: tool for tool in agent.toolset}
        self.by_model_name: dict[str, str] = {tool.model_name: tool.name for tool in agent.toolset}
        self.local_code = NOTHING
        self.skills: SessionSkills | None = None
        """The skills of a session that this is bound to, if its agent has some."""
        self.mcp: SessionServers | None = None
        """The MCP servers of a session that this is bound to, if its agent has some."""
        self._schemas: dict[tuple[str, ...], tuple[ToolSchema, ...]] = {}
        self._models = OtherModels()
        self._summary_model = summary_model(agent.summary_model, self.model, self._models)
        self.own = Told(digest_of(agent.instructions), agent.instructions, estimate_text(agent.instructions))
        self._told: weakref.WeakValueDictionary[str, Told] = weakref.WeakValueDictionary()
        """Instructions other than the agent's own, as long as a session holds them."""
        self.output = self._output_validator()

    def for_session(self, local_code: LocalCode) -> Bound:
        """The same agent for one session, with what this process added to that session."""
        made = copy.copy(self)
        made.local_code = local_code
        return made

    def with_options(self, options: SessionOptions) -> Bound:
        """The same agent with the options of a session. Raises `UsageError` if they mean nothing here."""
        if options == NO_OPTIONS:
            return self
        if options.specialist is not None:
            now = chosen(self.agent, options.specialist.name)
            options = msgspec.structs.replace(options, specialist=now)
        name = msgspec.json.encode(options, order="deterministic")
        variant = self._variants.get(name)
        if variant is None:
            model = self._model_under(options)
            variant = self._variants[name] = Bound(applied(self.agent, options), model, options)
            variant.own_agent, variant.specialists = self.agent, self.specialists
            variant._models.give(self.model)  # a command may change a session back to it
        return variant

    def _model_under(self, options: SessionOptions) -> Model:
        """The model of a session: that of the specialist that runs it, else the one that its options name, else its
        agent's own."""
        by = self.specialists.get(options.specialist.name) if options.specialist is not None else None
        if by is not None and by.agent.model is not None:
            return by.model
        other = None if options.model == self.agent.model else options.model
        return self.model_for(other) if other is not None else self.model

    def may_start(self) -> tuple[Agent, ...]:
        """The agents whose specialists its session may have started: its own, and the one that runs it now."""
        by = self.options.specialist
        runs = self.specialists.get(by.name) if by is not None else None
        return (self.own_agent,) if runs is None else (runs.agent, self.own_agent)

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
            settings=self.agent.model_settings if self.agent.model_settings != ModelSettings() else None,
        )

    def specs(self) -> tuple[ToolSpec, ...]:
        """The agent's tools as the kernel knows them, weighed."""
        return tuple(weighed(tool) for tool in self.tools.values())

    def tool(self, state: State, name: str) -> AnyTool | None:
        """The code of a session's tool: exactly the version that the session has, or none."""
        spec = state.toolset.tools.get(name)
        if spec is None:
            return None
        own = self.tools.get(name)
        if own is not None and own.spec.digest == spec.digest:
            return own
        return self.local_code.code.get((name, spec.digest))

    def canonical(self, state: State, shown: str) -> str:
        """The name of the tool that models know under this one."""
        name = self.by_model_name.get(shown, shown)
        spec = state.toolset.tools.get(name)
        if spec is not None and (spec.alias or name) == shown:
            return name
        return next(
            (tool_name for tool_name, spec in state.toolset.tools.items() if (spec.alias or tool_name) == shown), name
        )

    def setup(self, *, trusted: bool = False) -> Setup:
        terms = self.terms_in(trusted=trusted)
        return Setup(
            agent=self.ref,
            model=terms.model,
            tools=self.specs(),
            policy=terms.policy,
            limits=terms.limits,
            run_limits=terms.run_limits,
            settings=terms.settings,
            mode=terms.mode,
            options=without_content(self.options),
            quarantine=self.agent.quarantine,
            flow=self.agent.flow.graph if self.agent.flow is not None else None,
            routing=routing_of(self.agent.machine),
            machine=getattr(self.agent.machine, "spec", None),
        )

    def terms_in(self, *, trusted: bool) -> Terms:
        """What the agent's code says a session works by whose folder is trusted, or is not."""
        policy = msgspec.structs.replace(self.terms.policy, trusted=trusted)
        return msgspec.structs.replace(self.terms, policy=policy)

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
            policy=msgspec.structs.replace(agent.policy, role=agent.role),
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
            options=self.options,
        )

    def knowledge_tokens(self) -> int:
        return sum(estimate_text(text) for text in self.agent.knowledge)

    def tell(self, text: str) -> Told:
        """Makes a text known as instructions, for as long as the caller holds what it gets."""
        if text == self.own.text:
            return self.own
        digest = digest_of(text)
        instructions = self._told.get(digest)
        if instructions is None:
            instructions = self._told[digest] = Told(digest, text, estimate_text(text))
        return instructions

    def told(self, state: State) -> str:
        """The recorded instructions of a session: what its log says is what its model gets."""
        if state.workspace.instructions_digest == self.own.digest:
            return self.own.text
        instructions = self._told.get(state.workspace.instructions_digest)
        if instructions is None:
            raise KernelError(
                f"session {state.session_id!r}: event {state.workspace.instructions_seq} is not in memory"
            )
        return instructions.text

    def known_model(self, name: str) -> ModelRef:
        """A model by name, with what the kernel must know of it. Raises `Refused` for a name that means nothing."""
        if name == self.info.name:
            return self.model_ref()
        try:
            info = self.model_for(name).info
        except UsageError as error:
            raise Refused("unknown_model", str(error)) from error
        return reference(info)

    def model_for(self, name: str) -> Model:
        """The model that a request names: the agent's own, or another one that a session changed to."""
        if name == self.info.name:
            return self.model
        return self.local_code.models.get(name) or self._models.named(name)

    def offered(self, state: State) -> tuple[ToolSchema, ...]:
        """The tools that a model is told of in this state, in the order in which they were set."""
        only = state.run.options.tools if state.run.options is not None else None
        tools = [
            tool
            for name, spec in state.toolset.tools.items()
            if (not spec.deferred or name in state.toolset.loaded)
            and (only is None or name in only or spec.runs == "kernel")
            and (tool := self.tool(state, name)) is not None
        ]
        digests = tuple(tool.spec.digest for tool in tools)
        schemas = self._schemas.get(digests)
        if schemas is None:
            if len(self._schemas) >= SCHEMAS_KEPT_MAX:
                self._schemas.clear()
            schemas = self._schemas[digests] = tuple(tool.schema for tool in tools)
        return schemas

    def place(self, state: State) -> CallPlace:
        """Where the calls of a session are made."""
        return CallPlace(
            session=state.session_id,
            agent=state.setup.agent.name,
            folder=state.workspace.folder.cwd if state.workspace.folder is not None else None,
            exclude=tuple(state.gate.policy.exclude),
        )

    def _output_validator(self) -> Any:
        if self.agent.output is None:
            return None
        from .structured_output import Output

        return Output(self.agent.output, self.agent.output_schema or {})

    def parse_output(self, value: Any) -> Any:
        """An extracted value as the agent's output type; as it is if the agent has none any more."""
        return self.output.parse(value) if self.output is not None else value

    async def close(self) -> None:
        """Closes the models that were opened here; one that was given is its giver's to close."""
        given = not (self.agent.model is None or isinstance(self.agent.model, str))
        if not given:
            await self.model.close()
        for bound in (self, *self._variants.values()):
            await bound._models.close()


def routing_of(machine: Any) -> Routing:
    """How prompts come to a machine: never, as the model likes, or through the one that is given."""
    return "agent" if machine is None else "auto" if isinstance(machine, str) else "explicit"
