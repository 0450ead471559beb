"""An agent bound to code: its models opened, its tools at hand, its output type ready to check answers."""

from __future__ import annotations

import copy
import functools
import weakref
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.errors import KernelError, Refused, UsageError
from windlass.events.sessions import SetupBody
from windlass.events.turns import Prepared
from windlass.events.values.access import SandboxTerms
from windlass.events.values.blocks import JsonObject
from windlass.events.values.items import ModelSettings, ToolSchema
from windlass.events.values.specs import AgentRef, ModelRef, Routing, SessionOptions, Setup, Terms, ToolSpec
from windlass.kernel.parts.machines.machine_tools import MACHINE_TOOLS
from windlass.kernel.parts.tools.gate import runs_in_sandbox, unseen_by
from windlass.kernel.state import State
from windlass.models.base import Model, ModelInfo
from windlass.models.tokens import estimate_text
from windlass.runtime.api.agent import Agent
from windlass.runtime.context.archive_page import RECALL
from windlass.runtime.workspace.instruction_files import digest_of
from windlass.tools.canonical_json import digest
from windlass.tools.description import CallPlace, Description, described, described_aside
from windlass.tools.sandboxes.sandbox import Sandbox
from windlass.tools.tool import AnyTool

from .explanation import looked_at
from .local_code import LocalCode, weighed
from .sandbox_terms import terms_of, unhidden
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
        self._others: dict[str, Model] = {}
        self._given: dict[str, Model] = {}
        """Models besides the agent's own that were given as such: their giver closes them."""
        self._summary_model = self._summariser()
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
        name = msgspec.json.encode(options, order="deterministic")
        found = self._variants.get(name)
        if found is None:
            other = None if options.model == self.agent.model else options.model
            model = self.model_for(other) if other is not None else self.model
            found = self._variants[name] = Bound(applied(self.agent, options), model, options)
            found._given[self.info.name] = self.model  # a command may change a session back to it
        return found

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
        return next((found for found, spec in state.toolset.tools.items() if (spec.alias or found) == shown), name)

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
            options=without_content(self.options),
            quarantine=self.agent.quarantine,
            flow=self.agent.flow.graph if self.agent.flow is not None else None,
            routing=routing_of(self.agent.machine),
            machine=getattr(self.agent.machine, "spec", None),
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
            options=self.options,
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
        if state.workspace.instructions_digest == self.own.digest:
            return self.own.text
        found = self._told.get(state.workspace.instructions_digest)
        if found is None:
            raise KernelError(
                f"session {state.session_id!r}: event {state.workspace.instructions_seq} is not in memory"
            )
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
        """The model that is to write summaries, if the agent names one. Raises `UsageError` for an unknown name."""
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
        found = self.local_code.models.get(name) or self._given.get(name) or self._others.get(name)
        if found is None:
            from windlass.models.catalogue.names import open_model

            found = self._others[name] = open_model(name)
        return found

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
        found = self._schemas.get(digests)
        if found is None:
            if len(self._schemas) >= SCHEMAS_KEPT_MAX:
                self._schemas.clear()
            found = self._schemas[digests] = tuple(tool.schema for tool in tools)
        return found

    def looks_aside(self, state: State, name: str) -> bool:
        """Whether a call of a tool is looked at by itself and not with the reply: it is described in a thread, or its
        sandbox must be asked what it confines."""
        tool = self.tool(state, name)
        return tool is not None and (tool.options.describe_in_thread or runs_in_sandbox(tool.spec))

    async def prepared_aside(
        self, state: State, name: str, args: JsonObject | None, text: str | None, sandbox: Sandbox | None = None
    ) -> Prepared:
        """What the host finds out about a call before the gate, with what its tool reads for that, and what its
        sandbox says if all that the tool does happens there."""
        tool, about, terms = self.tool(state, name), None, None
        checked = tool.check(args if args is not None else {}) if tool is not None else None
        if tool is None or checked is None or checked.errors:
            return self.prepared(state, name, args, text)
        if tool.options.describe_in_thread:
            about = await described_aside(tool, checked.args, self.place(state))
        if sandbox is not None and runs_in_sandbox(tool.spec):
            about = about or described(tool, checked.args, self.place(state))
            terms, problem = await terms_of(sandbox, about)
            if problem is not None:
                return Prepared(digest=checked.digest, errors=(problem,))
            globs = unseen_by(state.gate.policy, tool.spec)
            why = await unhidden(sandbox, self.place(state).folder, globs) if about.unclear is None else None
            about = msgspec.structs.replace(about, unclear=why) if why is not None else about
        return self.prepared(state, name, args, text, about, sandbox=terms)

    def prepared(
        self,
        state: State,
        name: str,
        args: JsonObject | None,
        text: str | None,
        about: Description | None = None,
        *,
        sandbox: SandboxTerms | None = None,
    ) -> Prepared:
        """What the host finds out about a call before the gate. `sandbox` is where it would run."""
        tool = self.tool(state, name)
        if tool is None:
            return Prepared(digest=digest(args if args is not None else text))
        given: JsonObject = args if args is not None else {}
        try:
            if (
                name in MACHINE_TOOLS
                and tool.spec.runs == "kernel"
                and (wrong := self._machine_call(state, name, given))
            ):
                return Prepared(digest=digest(given), errors=wrong)
            return looked_at(state, tool, given, self.place(state), about, sandbox=sandbox)
        except (Exception, SystemExit) as error:  # code of the tool's author: a call that cannot be judged does not run
            return Prepared(digest="", errors=(f"the call cannot be checked ({type(error).__name__}: {error})",))

    def _machine_call(self, state: State, name: str, args: JsonObject) -> tuple[str, ...]:
        from windlass.runtime.machines.call_checks import wrong_with

        return wrong_with(state, name, args)

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
        for model in (*(() if given else (self.model,)), *self._others.values()):
            await model.close()
        for variant in self._variants.values():
            for model in variant._others.values():
                await model.close()


def routing_of(machine: Any) -> Routing:
    """How prompts come to a machine: never, as the model likes, or through the one that is given."""
    return "agent" if machine is None else "auto" if isinstance(machine, str) else "explicit"


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
