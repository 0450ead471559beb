"""`@tool`: a function with a name, a description, a schema and a contract. It stays callable as the function it was.

A tool is a value: it owns no session and runs nothing by itself; planes run it.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, overload

import msgspec

from windlass.events import known_types
from windlass.events.errors import UsageError
from windlass.events.values.blocks import JsonObject
from windlass.events.values.items import ToolSchema
from windlass.events.values.label_words import strange
from windlass.events.values.policy import PermissionKind, Trait
from windlass.events.values.tools import Contract, Runs, ToolSpec, ToolText
from windlass.tools.types.resolved_hints import Unresolved, documented, local_names

if TYPE_CHECKING:
    from windlass.tools.types.signature import Parameters

    from .description import Describe
    from .validator import Validator

TIMEOUT_MS = 600_000
LOCAL = "local"
"""The plane of this process, which every runtime has."""
PROCESS = "process"
"""The plane of workers, processes of their own, which every runtime has."""
NAME = r"[A-Za-z0-9_-]{1,64}\Z"
MODEL_NAME = r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z"
"""What every provider accepts; a canonical name may also begin with a digit if an alias stands before it."""
ARGUMENTS_BYTES_MAX = 1024 * 1024
SCALARS = frozenset({str, int, float, bool, type(None)})
DESCRIPTION_CHARS_MAX = 16 * 1024

P = ParamSpec("P")
R = TypeVar("R")
Mode = Literal["async", "async_generator", "sync", "generator", "external"]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What an author declares about a tool."""

    name: str | None = None
    description: str | None = None
    contract: Contract = "at_most_once"
    timeout_ms: int = TIMEOUT_MS
    traits: tuple[Trait, ...] = ()
    kind: PermissionKind = "tool"
    labels: tuple[str, ...] = ()
    alias: str | None = None
    exclusive: bool = False
    deferred: bool = False
    settle: bool = False
    source: str = "author"
    runs: Runs = "host"
    plane: str = LOCAL
    """Where it runs, by the name of a plane that the runtime was opened with."""
    parameters: JsonObject | None = None
    describe: Any = None
    """What says of a call what it is about, before it is judged; see `description.Describe`."""
    describe_in_thread: bool = False
    """Whether that reads files or is slow otherwise, so that it may not happen on the event loop."""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments before the gate: with defaults applied, their digest, and what is wrong with them."""

    args: JsonObject
    digest: str
    errors: tuple[str, ...] = ()


class Tool(Generic[P, R]):
    """A tool: what models, policies and planes need to know of a function."""

    def __init__(
        self, function: Callable[P, R] | None, options: Options, *, names: dict[str, Any] | None = None
    ) -> None:
        self.function = function
        self.options = options
        self.name = _name(function, options)
        self._names = names or {}
        self._read: Parameters | None = None
        if function is not None:
            functools.update_wrapper(self, documented(function), updated=())
        if not _is_unbound_method(function):
            self._try_to_read()

    # --- the function it was ---

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.function is None:
            raise UsageError(f"tool {self.name!r} is run by a client: it cannot be called here")
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Tool[..., Any]:
        """Taken from an instance, a method is a tool bound to it."""
        function: Any = self.function
        if function is None or isinstance(function, staticmethod):
            return self
        if isinstance(function, classmethod):
            return Tool(function.__get__(instance, owner), self._bound_options(), names=self._names)
        if instance is None or not inspect.isfunction(function):
            return self
        return Tool(types.MethodType(function, instance), self._bound_options(), names=self._names)

    def _bound_options(self) -> Options:
        return msgspec.structs.replace(self.options, name=self.name)

    def __repr__(self) -> str:
        return f"<tool {self.name!r}>"

    # --- what is known of it ---

    @property
    def parameters(self) -> Parameters:
        """What it takes. Raises `UsageError` for types that cannot be resolved."""
        if self._read is None:
            self._try_to_read(late=True)
        assert self._read is not None, "reading raises where it cannot"
        return self._read

    @functools.cached_property
    def description(self) -> str:
        """What the model is told: as given, else the docstring without its parameters."""
        if self.options.description is not None:
            return self.options.description.strip()[:DESCRIPTION_CHARS_MAX]
        from .types import docstrings

        text = documented(self.function).__doc__ if self.function is not None else None
        return docstrings.read(text).description[:DESCRIPTION_CHARS_MAX]

    @property
    def model_name(self) -> str:
        """The name on the model's side."""
        return self.options.alias or self.name

    @functools.cached_property
    def spec(self) -> ToolSpec:
        """The tool as the kernel knows it, with the digest of everything about it."""
        from .tool_digest import code_digest, implementation, schema_digest, tool_digest

        spec, options, schema = self._bare_spec(), self.options, self.parameters.schema
        told = {
            "spec": msgspec.to_builtins(spec),
            "description": self.description,
            "parameters": schema,
        }
        if options.plane != LOCAL:
            told["plane"] = options.plane
        if options.describe is not None:
            told["describe"] = implementation(options.describe)
        return msgspec.structs.replace(
            spec,
            digest=tool_digest(told, self.function),
            code=code_digest(self.function, options.plane, implementation(options.describe, prose=False)),
            schema=schema_digest(schema),
        )

    def _bare_spec(self) -> ToolSpec:
        options = self.options
        return ToolSpec(
            name=self.name,
            contract=options.contract,
            runs=options.runs,
            kind=options.kind,
            traits=options.traits,
            source=options.source,
            alias=options.alias,
            timeout_ms=options.timeout_ms,
            exclusive=options.exclusive,
            deferred=options.deferred,
            settle=options.settle,
            labels=options.labels,
        )

    @property
    def text(self) -> ToolText:
        """What models are told, under the canonical name."""
        return ToolText(name=self.name, description=self.description, parameters=self.parameters.schema)

    @property
    def schema(self) -> ToolSchema:
        """What models are told, under the name on their side."""
        return ToolSchema(name=self.model_name, description=self.description, parameters=self.parameters.schema)

    @functools.cached_property
    def mode(self) -> Mode:
        """How it runs."""
        function: Any = self.function
        if function is None:
            return "external"
        while isinstance(function, functools.partial | types.MethodType | staticmethod | classmethod):
            function = function.func if isinstance(function, functools.partial) else function.__func__
        if not (inspect.isroutine(function) or isinstance(function, type)):
            function = type(function).__call__
        if inspect.iscoroutinefunction(function):
            return "async"
        if inspect.isasyncgenfunction(function):
            return "async_generator"
        return "generator" if inspect.isgeneratorfunction(function) else "sync"

    # --- arguments ---

    @functools.cached_property
    def validator(self) -> Validator:
        """The compiled schema."""
        from .validator import Validator

        return Validator(self.parameters.schema, f"tool {self.name!r}")

    @functools.cached_property
    def _canonical(self) -> types.ModuleType:
        """The writer of digests, looked up at the first call: its imports are not needed before."""
        from . import canonical_json

        return canonical_json

    def check(self, args: JsonObject) -> Checked:
        """What the gate needs before it rules on a call. Never raises for what a model wrote."""
        forms = self._canonical
        try:
            raw = forms.canonical(args)
        except forms.NotCanonical as error:
            return Checked(args=args, digest="", errors=(f"the arguments: {error}",))
        if not _is_unicode(args, raw):
            told = "the arguments hold text that is not valid Unicode (a lone surrogate)"
            return Checked(args=args, digest=forms.digest_of(raw), errors=(told,))
        if len(raw) > ARGUMENTS_BYTES_MAX:
            told = f"the arguments: {len(raw)} bytes are more than the {ARGUMENTS_BYTES_MAX} allowed"
            return Checked(args=args, digest=forms.digest_of(raw), errors=(told,))
        errors = self.validator.errors(args)
        if errors:
            return Checked(args=args, digest=forms.digest_of(raw), errors=errors)
        completed = self.parameters.completed(args)
        if len(completed) == len(args) and all(type(value) in SCALARS for value in args.values()):
            digest = forms.digest_of(raw)  # nothing was added
        else:
            digest = forms.digest(completed)
        return Checked(args=completed, digest=digest, errors=self._conversion_errors(args))

    def _conversion_errors(self, args: JsonObject) -> tuple[str, ...]:
        if self.parameters.certain:
            return ()
        from windlass.tools.types.convert import Mismatch

        try:
            self.parameters.values(args)
        except Mismatch as error:
            return (str(error),)
        except Exception as error:
            # An author's constructor failed in its own way; its text is not for the model.
            return (f"the arguments are not acceptable ({type(error).__name__})",)
        return ()

    # --- reading ---

    def _try_to_read(self, *, late: bool = False) -> None:
        from .types import signature

        owner = f"tool {self.name!r}"
        if self.options.parameters is not None:
            self._read = signature.given(self.options.parameters, self.function, owner)
            return
        assert self.function is not None, "a tool without a function has its parameters given"
        try:
            self._read = signature.read(self.function, owner, self._names)
        except Unresolved as error:
            if late:
                raise UsageError(str(error)) from None


AnyTool = Tool[..., Any]


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    function: None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    contract: Contract = "at_most_once",
    timeout_ms: int = TIMEOUT_MS,
    traits: Iterable[Trait] = (),
    kind: PermissionKind = "tool",
    labels: Iterable[str] = (),
    alias: str | None = None,
    exclusive: bool = False,
    deferred: bool = False,
    settle: bool = False,
    plane: str = LOCAL,
    parameters: JsonObject | None = None,
    describe: Describe | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(function: Any = None, /, **declared: Any) -> Any:
    """Makes a tool of a function, method or other callable: `@tool`, `@tool(contract="pure")` or `tool(callable)`.

    Raises `UsageError` at once for a signature that no model could fill, a bad name or an unknown option.
    """
    if not (function is None or callable(function) or isinstance(function, classmethod)):
        raise UsageError(f"tool() takes a function, not {function!r}: options go by name, as in @tool(name=...)")
    options = _options(declared)

    def decorate(target: Callable[..., Any]) -> AnyTool:
        return _made(target, options, depth=2)

    return _made(function, options, depth=1) if function is not None else decorate


def external_tool(name: str, description: str, parameters: JsonObject, **declared: Any) -> AnyTool:
    """A tool that an attached client runs: the session only knows its schema, and waits for the result."""
    options = _options({**declared, "name": name, "description": description, "parameters": parameters})
    made: AnyTool = Tool(None, msgspec.structs.replace(options, runs="client"))
    _check_schema(made)
    return made


def _check_schema(made: AnyTool) -> None:
    """Raises `UsageError` for parameters by hand that are no schema: here, and not in the middle of a run."""
    parameters = made.options.parameters
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        raise UsageError(f"tool {made.name!r}: its parameters must be a JSON Schema of an object")
    made.validator.errors({})


def as_tool(thing: Any) -> AnyTool:
    """A tool as it is, or a plain callable with default options."""
    if isinstance(thing, Tool):
        return thing
    inner = getattr(thing, "__func__", None)
    if isinstance(inner, Tool):  # a class method above @tool
        return inner.__get__(thing.__self__, type(thing.__self__))
    made: AnyTool = tool(thing)
    return made


def _made(function: Any, options: Options, *, depth: int) -> AnyTool:
    if isinstance(function, Tool):
        raise UsageError(f"{function!r} is a tool already: give its options once")
    inner = function.__func__ if isinstance(function, staticmethod | classmethod) else function
    made: AnyTool = Tool(function, options, names=local_names(inner, depth + 1))
    if options.parameters is not None:
        _check_schema(made)
    return made


def _options(declared: dict[str, Any]) -> Options:
    known = set(Options.__struct_fields__) - {"runs"}
    unknown = sorted(set(declared) - known)
    if unknown:
        raise UsageError(f"unknown tool option {unknown[0]!r}: known are {', '.join(sorted(known))}")
    plain = {
        key: list(value) if isinstance(value, tuple | set | frozenset) else value for key, value in declared.items()
    }
    try:
        options = known_types.convert(plain, Options)
    except msgspec.ValidationError as error:
        from .types.wrong_fields import wrong_field

        raise UsageError(f"tool option {wrong_field(error, Options)}") from None
    if options.timeout_ms <= 0:
        raise UsageError(f"timeout_ms={options.timeout_ms!r} must be greater than 0")
    if wrong := strange(options.labels):
        raise UsageError(f"tool option labels: {wrong}")
    if not re.match(NAME, options.plane):
        raise UsageError(f"{options.plane!r} is no name of a plane: use letters, digits, '_' and '-'")
    if not (options.describe is None or callable(options.describe)):
        raise UsageError(f"describe={options.describe!r} must be a function of the arguments and the place of a call")
    return options


def _name(function: Any, options: Options) -> str:
    name = options.name or str(getattr(documented(function) if function else None, "__name__", ""))
    if name == "__call__":
        name = type(function).__name__
    if not re.match(NAME, name):
        raise UsageError(f"{name!r} is no tool name: give it one of letters, digits, '_' and '-' with @tool(name=...)")
    seen = options.alias or name
    if not re.match(MODEL_NAME, seen):
        raise UsageError(f"{seen!r} is no name that models accept: begin with a letter or '_', or set alias=...")
    return name


def _is_unicode(args: JsonObject, raw: bytes) -> bool:
    """Whether the log can hold the texts of some arguments; `raw` is their canonical form."""
    if b"\\ud" not in raw:
        return True
    try:
        msgspec.json.encode(args)
    except UnicodeEncodeError:
        return False
    return True


def _is_unbound_method(function: Any) -> bool:
    if isinstance(function, classmethod):
        return True
    if not inspect.isfunction(function):
        return False
    first = next(iter(inspect.signature(function).parameters), "")
    return first in ("self", "cls") and "." in function.__qualname__.replace(".<locals>.", "")
