"""What endpoints demand beyond their wire format, as profiles that refuse a request which ignores it.

Each profile says in its `why` what was found documented or reported, and where; what is known only second-hand is said
to be. An endpoint for which no demand was found only says where it puts reasoning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from windlass.events.errors import UsageError
from windlass.events.values.blocks import JsonObject
from windlass.testing.model_server.wires.parsed import Format, ParsedRequest
from windlass.testing.model_server.wires.wire import WireRefused, objects

Auth = Literal["vendor", "bearer", "api-key", "none"]
ErrorShape = Literal["vendor", "flat", "xai"]


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a check may look at besides the request itself."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]


Check = Callable[[ParsedRequest, Context], None]


def accept(request: ParsedRequest, context: Context) -> None:
    """No demand of its own."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint. `call_ids` is the pattern of the ids it makes (empty: the vendor's); `reasoning_field`
    where it puts reasoning; `auth` how the key is sent (`vendor`: as the wire format's own vendor does);
    `errors` the shape of its error bodies; `strict_fields` whether unknown fields are refused by the format's rules."""

    name: str
    call_ids: str = ""
    reasoning_field: str = "reasoning_content"
    auth: Auth = "bearer"
    errors: ErrorShape = "vendor"
    check: Check = accept
    strict_fields: bool = False
    why: str = ""


OPEN = Profile(name="", auth="vendor", strict_fields=True)
"""The vendor itself: no quirks beyond the wire format."""

CALL_IDS: dict[Format, str] = {
    "anthropic": "toolu_{}",
    "openai": "call_{}",
    "responses": "call_{}",
    "gemini": "fc{}",
}

NINE_ALPHANUMERICS = re.compile(r"^[a-zA-Z0-9]{9}$")
GROK_WITH_EFFORT = re.compile(r"^grok-(3-mini|4\.3|4\.5|4\.6|4\.20-multi-agent)")
MISTRAL_UNKNOWN = ("max_completion_tokens", "store", "metadata", "user", "logit_bias", "reasoning_content")


def messages_of(request: ParsedRequest) -> list[JsonObject]:
    return objects(request.body.get("messages"))


def calling(message: JsonObject) -> list[JsonObject]:
    """The tool calls of an assistant message."""
    return objects(message.get("tool_calls")) if message.get("role") == "assistant" else []


def thinks(request: ParsedRequest) -> str | None:
    """What the request's `thinking` field says, if it is there at all."""
    thinking = request.body.get("thinking")
    return str(thinking.get("type")) if isinstance(thinking, dict) else None


def refuse_field(request: ParsedRequest, field: str, status: int, form: str, code: str) -> None:
    """Refuses assistant messages that carry a field; `form` is the endpoint's sentence with the message's place."""
    for at, message in enumerate(messages_of(request)):
        if message.get("role") == "assistant" and field in message:
            raise WireRefused(form.format(at=at, field=field), status=status, code=code)


def reasoning_kept(request: ParsedRequest, message: str) -> None:
    """Assistant messages with tool calls must carry `reasoning_content`, even when it is empty."""
    for at, each in enumerate(messages_of(request)):
        if calling(each) and not isinstance(each.get("reasoning_content"), str):
            raise WireRefused(message.format(at=at), code="invalid_request_error")


def deepseek(request: ParsedRequest, context: Context) -> None:
    if request.model.startswith("deepseek-reasoner"):
        if request.body.get("tools"):
            raise WireRefused("deepseek-reasoner does not support Function Calling", code="invalid_request_error")
        form = "the {field} field of messages[{at}] must be removed before the request"
        refuse_field(request, "reasoning_content", 400, form, "invalid_request_error")
        if request.body.get("logprobs") or request.body.get("top_logprobs"):
            raise WireRefused("deepseek-reasoner does not support logprobs", code="invalid_request_error")
    elif thinks(request) == "enabled":
        reasoning_kept(request, "The reasoning_content in the thinking mode must be passed back: messages[{at}].")


def qwen(request: ParsedRequest, context: Context) -> None:
    plain = "instruct" in request.model or "coder" in request.model
    if not request.stream and not plain and request.body.get("enable_thinking") is not False:
        message = "parameter.enable_thinking must be set to false for non-streaming calls"
        raise WireRefused(message, code="invalid_parameter_error")


def moonshot(request: ParsedRequest, context: Context) -> None:
    thinking = request.body.get("thinking")
    if thinking is not None and not isinstance(thinking, dict):
        raise WireRefused("the thinking field in the request must be an object")
    if thinking is not None and request.body.get("reasoning_effort") is not None:
        raise WireRefused("cannot specify both 'thinking' and 'reasoning_effort'")
    if thinks(request) == "disabled" or not re.match(r"^kimi-k2(\.|-thinking)", request.model):
        return
    choice = request.body.get("tool_choice")
    if choice == "required" or isinstance(choice, dict):
        raise WireRefused("tool_choice specified is incompatible with thinking enabled")
    reasoning_kept(
        request, "thinking is enabled but reasoning_content is missing in assistant tool call message at index {at}"
    )


def minimax(request: ParsedRequest, context: Context) -> None:
    if request.body.get("reasoning_split") is not True:
        raise WireRefused("reasoning_split must be true, or reasoning arrives inside the text in <think> tags")


def cerebras(request: ParsedRequest, context: Context) -> None:
    for name in ("store", "reasoning", "enable_thinking", "thinking"):
        if name in request.body:
            message = f"body.{name}: property 'body.{name}' is unsupported"
            raise WireRefused(message, code="wrong_api_format", param="validation_error")
    form = "messages.{at}.assistant.{field}: property 'messages.{at}.assistant.{field}' is unsupported"
    refuse_field(request, "reasoning_content", 400, form, "wrong_api_format")


def groq(request: ParsedRequest, context: Context) -> None:
    form = "'messages.{at}' : for 'role:assistant' the following must be satisfied: property '{field}' is unsupported"
    refuse_field(request, "reasoning_content", 400, form, "invalid_request_error")


def mistral(request: ParsedRequest, context: Context) -> None:
    for name in MISTRAL_UNKNOWN:
        if name in request.body:
            raise WireRefused(f"extra_forbidden: body.{name}: Extra inputs are not permitted", status=422)
    form = "extra_forbidden: body.messages.{at}.assistant.{field}: Extra inputs are not permitted"
    refuse_field(request, "reasoning_content", 422, form, "3001")
    before = ""
    for message in messages_of(request):
        idents: list[Any] = [call.get("id") for call in calling(message)]
        idents += [message.get("tool_call_id")] if message.get("role") == "tool" else []
        for ident in idents:
            if not isinstance(ident, str) or not NINE_ALPHANUMERICS.match(ident):
                text = f"Tool call id was {ident} but must be a-z, A-Z, 0-9, with a length of 9."
                raise WireRefused(text, kind="invalid_function_call", code="3280")
        if message.get("role") == "user" and before == "tool":
            raise WireRefused(
                "Unexpected role 'user' after role 'tool'", kind="invalid_request_message_order", code="3230"
            )
        before = str(message.get("role"))
    last = messages_of(request)[-1:]
    if last and last[0].get("role") not in ("user", "tool") and last[0].get("prefix") is not True:
        raise WireRefused(f"Expected last role User or Tool (or Assistant with prefix True) but got {before}")


def xai(request: ParsedRequest, context: Context) -> None:
    wanted = {"presence_penalty": "presencePenalty", "frequency_penalty": "frequencyPenalty", "stop": "stop"}
    if GROK_WITH_EFFORT.match(request.model) is None:
        wanted["reasoning_effort"] = "reasoningEffort"
    for field, shown in wanted.items():
        if request.body.get(field) is not None:
            raise WireRefused(f"Model {request.model} does not support parameter {shown}.", code="invalid-argument")


def azure(request: ParsedRequest, context: Context) -> None:
    if "/openai/v1/" not in context.path and "api-version" not in context.query:
        raise WireRefused("Resource not found", status=404, code="404")


def vllm_without_tools(request: ParsedRequest, context: Context) -> None:
    if request.body.get("tools") and request.body.get("tool_choice", "auto") == "auto":
        raise WireRefused('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')


LISTED = (
    Profile(
        name="deepseek",
        check=deepseek,
        why="api-docs.deepseek.com/zh-cn/guides/reasoning_model: deepseek-reasoner supports no function calling, and "
        "reasoning_content or logprobs in a request give 400. api-docs.deepseek.com/guides/thinking_mode: in thinking "
        "mode, messages with tool calls must carry their reasoning_content (anomalyco/opencode#24722).",
    ),
    Profile(
        name="qwen",
        check=qwen,
        why="infiniflow/ragflow#8972, QuantumNous/new-api#1109: without streaming, thinking models refuse a request "
        "unless enable_thinking is false.",
    ),
    Profile(
        name="moonshot",
        check=moonshot,
        why="mastra-ai/mastra#12592: reasoning_content must stay on tool-call messages while thinking is on, which it "
        "is by default; can1357/oh-my-pi#1077: a forced tool_choice needs thinking disabled; HKUDS/nanobot#3939: "
        "thinking and reasoning_effort exclude each other.",
    ),
    Profile(
        name="minimax",
        check=minimax,
        reasoning_field="reasoning_details",
        why="platform.minimax.io/docs/guides/text-m2-function-call: reasoning_split=true separates reasoning into "
        "reasoning_details; without it reasoning is inside the text. The real endpoint answers such a request; "
        "this profile refuses it, so that a client that forgets the field is seen.",
    ),
    Profile(
        name="cerebras",
        check=cerebras,
        reasoning_field="reasoning",
        errors="flat",
        why="proxysoul/Empryo#209, Kilo-Org/kilocode#10375: unknown properties, reasoning_content among them, give 400 "
        "wrong_api_format; Gitlawb/openclaude#740: store is refused. Reasoning is in `reasoning`.",
    ),
    Profile(
        name="groq",
        check=groq,
        reasoning_field="reasoning",
        why="tashfeenahmed/freellmapi#1070: reasoning_content on assistant messages gives 400.",
    ),
    Profile(
        name="mistral",
        check=mistral,
        call_ids="{}",
        errors="flat",
        why="langchain-ai/langchain#24668, nearai/ironclaw#1241: call ids are exactly nine alphanumerics; "
        "avante-corp/avante.nvim#2695: no user message right after a tool message; huggingface/smolagents#757: the "
        "last message is from the user or a tool; editor-code-assistant/eca#231 and charmbracelet/crush#1590: unknown "
        "fields such as max_completion_tokens and reasoning_content give 422.",
    ),
    Profile(
        name="xai",
        check=xai,
        errors="xai",
        why="lobehub/lobehub#7370, miaoxworld/NativeTavern#83, mnfst/modelparams.dev#330: presence_penalty, "
        "frequency_penalty and stop are refused; NousResearch/hermes-agent#23435: reasoning_effort is taken by some "
        "models only.",
    ),
    Profile(
        name="azure",
        check=azure,
        auth="api-key",
        why="learn.microsoft.com Azure OpenAI REST reference: the key goes in the api-key header, api-version in the "
        "query; without it 404 Resource not found. The model is the deployment in the path.",
    ),
    Profile(
        name="ollama",
        auth="none",
        reasoning_field="reasoning",
        why="ollama/ollama#14820 and docs.ollama.com/api/openai-compatibility: no key; reasoning is in `reasoning`.",
    ),
    Profile(
        name="vllm",
        reasoning_field="reasoning",
        why="vllm-project/vllm#27752 (reasoning_content became reasoning).",
    ),
    Profile(
        name="vllm-without-tools",
        check=vllm_without_tools,
        reasoning_field="reasoning",
        errors="flat",
        why="langchain4j/langchain4j#3475: a server started without its tool flags refuses automatic tool choice.",
    ),
    Profile(
        name="openrouter",
        reasoning_field="reasoning",
        why="openrouter.ai/docs/use-cases/reasoning-tokens: reasoning is in `reasoning`.",
    ),
    Profile(name="together", why="no demand found documented."),
    Profile(name="llamacpp", auth="none", why="no demand found documented."),
)

PROFILES: dict[str, Profile] = {profile.name: profile for profile in LISTED}
"""Every profile by name; a client reaches it under `/p/<name>/`."""


def shaped(body: JsonObject, profile: Profile) -> JsonObject:
    """An error body as this endpoint sends it."""
    error = body.get("error")
    if profile.errors == "vendor" or not isinstance(error, dict):
        return body
    if profile.errors == "flat":
        return {"object": "error", **error}
    return {"code": error.get("code") or "invalid-argument", "error": error.get("message")}


def profile_named(name: str) -> Profile:
    """The profile of that name, the vendor itself for none; raises UsageError with the known names."""
    chosen_profile = PROFILES.get(name) if name else OPEN
    if chosen_profile is None:
        raise UsageError(f"no profile {name!r}: choose one of {', '.join(sorted(PROFILES))}")
    return chosen_profile
