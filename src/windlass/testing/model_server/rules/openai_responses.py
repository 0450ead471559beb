"""What OpenAI Responses refuses. Each check names its rule; `cited_openai` says what that rests on."""

from __future__ import annotations

import re
from typing import Any

from windlass.events.values.blocks import JsonObject
from windlass.testing.model_server.answers import sealed
from windlass.testing.model_server.memory import Memory
from windlass.testing.model_server.wires.parsed import ParsedRequest
from windlass.testing.model_server.wires.wire import WireRefused

from .checks import Checks, fields, is_schema, object_text, strict_schema, words
from .openai_chat import NAME, REASONING_MODEL, check_image

CHECKS = Checks("responses")
need, typed = CHECKS.need, CHECKS.typed

FIELDS = fields(
    text="model instructions previous_response_id truncation user service_tier prompt_cache_key prompt_cache_retention"
    " safety_identifier",
    flag="stream parallel_tool_calls store background",
    whole="max_output_tokens max_tool_calls top_logprobs",
    number="temperature top_p",
    list="tools include context_management",
    object="stream_options text reasoning metadata prompt prompt_cache_options moderation image access_programs",
    text_or_list="input",
    text_or_object="tool_choice conversation",
)
PARTS: dict[str, frozenset[str]] = {
    "user": frozenset({"input_text", "input_image", "input_file"}),
    "system": frozenset({"input_text", "input_image", "input_file"}),
    "developer": frozenset({"input_text", "input_image", "input_file"}),
    "assistant": frozenset({"output_text", "refusal"}),
}
CALLS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
OUTPUTS = {output: call for call, output in CALLS.items()}
OTHER_ITEMS = words(
    "web_search_call file_search_call image_generation_call code_interpreter_call computer_call computer_call_output"
    " local_shell_call local_shell_call_output shell_call shell_call_output apply_patch_call apply_patch_call_output"
    " mcp_list_tools mcp_approval_request mcp_approval_response mcp_call compaction tool_search_call"
    " tool_search_output"
)
ID_PREFIX = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
CALL_ID = re.compile(r"^.{1,64}$", re.DOTALL)
OUTPUT_TOKENS_MIN = 16


def check(request: ParsedRequest, memory: Memory) -> None:
    """Raises WireRefused when the vendor would refuse this request."""
    body = request.body
    typed("fields", body, FIELDS, "", "Unknown parameter: '{}'.", "Invalid type for '{}': expected {}.")
    need(
        "model", request.model, "Missing required parameter: 'model'.", code="missing_required_parameter", param="model"
    )
    check_settings(body)
    check_tools(body)
    need(
        "include",
        all(isinstance(each, str) for each in body.get("include") or []),
        "Invalid value for 'include'.",
        param="include",
    )
    given = body.get("input")
    need(
        "input",
        given is not None,
        "Missing required parameter: 'input'.",
        code="missing_required_parameter",
        param="input",
    )
    need("input", given or body.get("previous_response_id"), "Invalid 'input': it is empty.", param="input")
    items = memory.input_of(body)
    for at, item in enumerate(items):
        check_item(item, at, body, memory)
    check_pairs(items)
    check_reasoning(items, memory)


def check_settings(body: JsonObject) -> None:
    limit = body.get("max_output_tokens")
    below = f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {OUTPUT_TOKENS_MIN}."
    need(
        "output_min",
        limit is None or limit >= OUTPUT_TOKENS_MIN,
        below,
        code="integer_below_min_value",
        param="max_output_tokens",
    )
    reasoning = REASONING_MODEL.match(str(body.get("model")))
    if reasoning and body.get("temperature") not in (None, 1):
        message = "Unsupported parameter: 'temperature' is not supported with this model."
        raise WireRefused(message, param="temperature", rule="responses.reasoning_temperature")
    text = body.get("text")
    wanted = text.get("format") if isinstance(text, dict) else None
    if isinstance(wanted, dict) and wanted.get("type") == "json_schema":
        named = isinstance(wanted.get("name"), str) and NAME.match(wanted["name"])
        need("format", named, "Missing required parameter: 'text.format.name'.", param="text.format.name")
        need("format", isinstance(wanted.get("schema"), dict), "Missing required parameter: 'text.format.schema'.")
        wrong = strict_schema(wanted["schema"]) if wanted.get("strict") is True else None
        need(
            "strict",
            not wrong,
            f"Invalid schema for response_format '{wanted['name']}': {wrong}.",
            code="invalid_json_schema",
        )


def check_tools(body: JsonObject) -> None:
    names: list[Any] = []
    for at, tool in enumerate(body.get("tools") or []):
        kind = tool.get("type") if isinstance(tool, dict) else None
        untyped = f"Missing required parameter: 'tools[{at}].type'."
        need("tools", isinstance(kind, str) and kind, untyped, code="missing_required_parameter")
        if kind not in ("function", "custom"):
            continue
        name = tool.get("name")
        need(
            "tools",
            name is not None,
            f"Missing required parameter: 'tools[{at}].name'.",
            code="missing_required_parameter",
        )
        good = isinstance(name, str) and NAME.match(name)
        need(
            "name",
            good,
            f"Invalid 'tools[{at}].name': string does not match pattern '{NAME.pattern}'.",
            code="invalid_value",
        )
        names.append(name)
        schema = tool.get("parameters")
        if kind == "function" and schema is not None:
            need(
                "parameters",
                is_schema(schema),
                f"Invalid schema for function '{name}'.",
                code="invalid_function_parameters",
            )
            bad = f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"'."
            need("parameters", schema.get("type") == "object", bad, code="invalid_function_parameters")
            wrong = strict_schema(schema) if tool.get("strict") is True else None
            need(
                "strict",
                not wrong,
                f"Invalid schema for function '{name}': {wrong}.",
                code="invalid_function_parameters",
            )
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") in ("function", "custom"):
        named = choice.get("name") in names
        need(
            "choice", named, f"Tool choice {choice.get('name')!r} not found in 'tools' parameter.", param="tool_choice"
        )


def check_item(item: Any, at: int, body: JsonObject, memory: Memory) -> None:
    where = f"input[{at}]"
    need("input", isinstance(item, dict), f"Invalid type for '{where}': expected an object.", param=where)
    kind = item.get("type", "message")
    prefix, ident = ID_PREFIX.get(kind), item.get("id")
    if prefix and ident is not None:
        begins = f"Invalid '{where}.id': '{ident}'. Expected an ID that begins with '{prefix}'."
        need(
            "item_id",
            isinstance(ident, str) and ident.startswith(prefix),
            begins,
            code="invalid_value",
            param=f"{where}.id",
        )
    match kind:
        case "message":
            check_message(item, where)
        case "function_call" | "custom_tool_call":
            check_call(item, where, kind)
        case "function_call_output" | "custom_tool_call_output":
            check_output(item, where)
        case "reasoning":
            check_reasoning_item(item, where, memory)
        case "item_reference":
            need("reference", ident in memory.items, f"Item with id '{ident}' not found.", param="input")
        case _:
            need("items", kind in OTHER_ITEMS, f"Invalid value: {kind!r}.", code="invalid_value", param=f"{where}.type")


def check_message(item: JsonObject, where: str) -> None:
    role, content = item.get("role"), item.get("content")
    need(
        "messages",
        role in PARTS,
        f"Invalid value: {role!r}. Supported roles are {sorted(PARTS)}.",
        param=f"{where}.role",
    )
    assert isinstance(role, str)
    need("messages", content is not None, f"Missing required parameter: '{where}.content'.", param=where)
    if isinstance(content, str):
        return
    need("messages", isinstance(content, list), f"Invalid type for '{where}.content'.", param=where)
    assert isinstance(content, list)
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        supported = f"Invalid value: {kind!r}. Supported values are: {sorted(PARTS[role])}."
        need("parts", kind in PARTS[role], supported, code="invalid_value", param=f"{where}.content[{index}]")
        check_part(part, f"{where}.content[{index}]")


def check_part(part: JsonObject, where: str) -> None:
    if part["type"] in ("input_text", "output_text"):
        need("parts", isinstance(part.get("text"), str), f"Missing required parameter: '{where}.text'.", param=where)
    if part["type"] == "input_image" and part.get("file_id") is None:
        check_image(part.get("image_url"), where)


def check_call(item: JsonObject, where: str, kind: str) -> None:
    ident, name = item.get("call_id"), item.get("name")
    good = isinstance(ident, str) and CALL_ID.match(ident)
    need("call_id", good, f"Invalid '{where}.call_id': expected 1 to 64 characters.", param=f"{where}.call_id")
    named = isinstance(name, str) and NAME.match(name)
    need(
        "name", named, f"Invalid '{where}.name': string does not match pattern '{NAME.pattern}'.", code="invalid_value"
    )
    if kind == "function_call":
        wrong = object_text(item.get("arguments"))
        need("arguments", wrong is None, f"Invalid '{where}.arguments': {wrong}.", param=f"{where}.arguments")
    else:
        need("calls", isinstance(item.get("input"), str), f"Missing required parameter: '{where}.input'.", param=where)


def check_output(item: JsonObject, where: str) -> None:
    need(
        "outputs", isinstance(item.get("call_id"), str), f"Missing required parameter: '{where}.call_id'.", param=where
    )
    output = item.get("output")
    need(
        "outputs",
        isinstance(output, str | list),
        f"Missing required parameter: '{where}.output'.",
        param=f"{where}.output",
    )
    if isinstance(output, list):
        for index, part in enumerate(output):
            kind = part.get("type") if isinstance(part, dict) else None
            supported = f"Invalid value: {kind!r}. Supported values are: {sorted(PARTS['user'])}."
            need("outputs", kind in PARTS["user"], supported, code="invalid_value", param=f"{where}.output[{index}]")
            check_part(part, f"{where}.output[{index}]")


def check_reasoning_item(item: JsonObject, where: str, memory: Memory) -> None:
    """Reasoning comes back whole: by the server's own memory of it, or by its encrypted content, unchanged."""
    ident = item.get("id")
    need(
        "reasoning",
        isinstance(item.get("summary"), list),
        f"Missing required parameter: '{where}.summary'.",
        param=where,
    )
    for part in item["summary"]:
        fine = isinstance(part, dict) and part.get("type") == "summary_text" and isinstance(part.get("text"), str)
        need("reasoning", fine, f"Invalid value in '{where}.summary'.", code="invalid_value", param=where)
    opaque = item.get("encrypted_content")
    if opaque is not None:
        fine = opaque in memory.signed or sealed(opaque, "reasoning") is not None
        need(
            "encrypted",
            fine,
            f"The encrypted content for item {ident} could not be verified.",
            code="invalid_encrypted_content",
        )
        return
    need(
        "not_stored",
        ident in memory.items,
        f"Item with id '{ident}' not found. Items are not persisted when `store` is set to false. "
        "Try again with `store` set to true, or remove this item from your input.",
        param="input",
    )


def check_pairs(items: list[JsonObject]) -> None:
    """Each call has exactly one output behind it, each output a call before it."""
    open_calls: dict[str, str] = {}
    called: set[str] = set()
    for item in items:
        kind, ident = item.get("type", "message"), str(item.get("call_id"))
        if kind in CALLS:
            need("call_id_unique", ident not in called, f"Duplicate call_id '{ident}' in input.", param="input")
            called.add(ident)
            open_calls[ident] = kind
        elif kind in OUTPUTS:
            again = "was answered already" if ident in called else "has no call"
            has_call = open_calls.pop(ident, None) == OUTPUTS[kind]
            need(
                "orphan_output",
                has_call,
                f"No tool call found for function call output with call_id {ident}: it {again}.",
                param="input",
            )
    for ident in open_calls:
        raise WireRefused(
            f"No tool output found for function call {ident}.", param="input", rule="responses.unanswered"
        )


def check_reasoning(items: list[JsonObject], memory: Memory) -> None:
    """A reasoning item stands right before what it led to, and what it led to does not come without it."""
    before: JsonObject = {}
    for item in items:
        kind = item.get("type", "message")
        if before.get("type") == "reasoning" and (kind in OUTPUTS or item.get("role") in ("user", "system")):
            raise lonely(before)
        needed = memory.preceded.get(str(item.get("id")))
        if needed is not None and before.get("id") != needed:
            raise WireRefused(
                f"Item '{item['id']}' of type '{kind}' was provided without its required 'reasoning' item: '{needed}'.",
                param="input",
                rule="responses.reasoning_before",
            )
        before = item
    if before.get("type") == "reasoning":
        raise lonely(before)


def lonely(item: JsonObject) -> WireRefused:
    message = f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
    return WireRefused(message, param="input", rule="responses.reasoning_after")
