"""What Gemini generateContent refuses. Each check names its rule; `cited_gemini` says what that rests on."""

from __future__ import annotations

import re
from typing import Any

from windlass.events.values.blocks import JsonObject
from windlass.testing.model_server.answers import sealed
from windlass.testing.model_server.memory import Memory
from windlass.testing.model_server.wires.parsed import ParsedRequest
from windlass.testing.model_server.wires.wire import WireRefused, objects

from .checks import Checks, fields, inner_schemas, is_base64, words

CHECKS = Checks("gemini")
need, typed = CHECKS.need, CHECKS.typed

FIELDS = fields(
    text="cachedContent model serviceTier",
    flag="store",
    list="contents tools safetySettings",
    object="systemInstruction toolConfig generationConfig",
)
GENERATION_FIELDS = fields(
    text="responseMimeType mediaResolution",
    flag="responseLogprobs enableEnhancedCivicAnswers",
    whole="candidateCount maxOutputTokens seed logprobs",
    number="temperature topP topK presencePenalty frequencyPenalty",
    list="stopSequences responseModalities",
    object="responseSchema thinkingConfig speechConfig imageConfig responseFormat",
    any="responseJsonSchema",
)
TOOL_FIELDS = words(
    "functionDeclarations googleSearch googleSearchRetrieval codeExecution urlContext computerUse fileSearch googleMaps"
    " mcpServers"
)
UNKNOWN = 'Invalid JSON payload received. Unknown name "{}": Cannot find field.'
WRONG = "Invalid value at '{}': expected {}"
PART_DATA = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
)
PART_FIELDS = frozenset(
    {*PART_DATA, "thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata", "toolCall",
     "toolResponse"}
)  # fmt: skip
SCHEMA_FIELDS = words(
    "type format title description nullable enum maxItems minItems properties required minProperties maxProperties"
    " minLength maxLength pattern example anyOf propertyOrdering default items minimum maximum"
)
SCHEMA_TYPES = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
NAME = re.compile(r"^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$")
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"})
OTHER_TYPES = re.compile(r"^(audio|video|text)/|^application/(pdf|json)$")
MODES = frozenset({"AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED"})
SKIP_SIGNATURE = frozenset({"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"})
"""What the documentation offers to histories that have no signature."""


def check(request: ParsedRequest, memory: Memory) -> None:
    """Raises WireRefused when the vendor would refuse this request."""
    body = request.body
    typed("fields", body, FIELDS, "", UNKNOWN, WRONG)
    check_system(body.get("systemInstruction"))
    names = check_tools(body)
    check_tool_config(body, names)
    check_generation(body.get("generationConfig"))
    contents = body.get("contents")
    need(
        "contents",
        isinstance(contents, list) and contents,
        "* GenerateContentRequest.contents: contents is not specified",
    )
    assert isinstance(contents, list)
    for at, content in enumerate(contents):
        check_content(content, at)
    check_turns(contents)
    if needs_signature(request.model):
        check_signatures(contents, memory)


def needs_signature(model: str) -> bool:
    """Gemini 3 and later refuse calls without their signature; its image models do not."""
    version = re.match(r"^gemini-(\d+)", model)
    return version is not None and int(version[1]) >= 3 and "image" not in model


def check_system(system: Any) -> None:
    if system is None:
        return
    parts = objects(system.get("parts")) if isinstance(system, dict) else []
    need("system", parts, "* GenerateContentRequest.system_instruction: parts must not be empty")
    for part in parts:
        need("system", isinstance(part.get("text"), str), "system_instruction: only text is supported")


def check_tools(body: JsonObject) -> list[str]:
    names: list[str] = []
    for at, tool in enumerate(body.get("tools") or []):
        need("tools", isinstance(tool, dict), f"tools[{at}]: expected an object")
        for name in tool:
            need("fields", name in TOOL_FIELDS, UNKNOWN.format(f"tools[{at}].{name}"))
        declarations = tool.get("functionDeclarations") or []
        need("tools", isinstance(declarations, list), WRONG.format(f"tools[{at}].function_declarations", "list"))
        for index, declared in enumerate(declarations):
            where = f"GenerateContentRequest.tools[{at}].function_declarations[{index}]"
            need("tools", isinstance(declared, dict), WRONG.format(where, "object"))
            name = declared.get("name")
            described = declared.get("description")
            need("tools", described is None or isinstance(described, str), WRONG.format(f"{where}.description", "text"))
            need("name", isinstance(name, str) and NAME.match(name), f"* {where}.name: Invalid function name.")
            assert isinstance(name, str)
            need("names_unique", name not in names, f"Duplicate function declaration found: {name}")
            names.append(name)
            both = declared.get("parameters") is not None and declared.get("parametersJsonSchema") is not None
            need("two_schemas", not both, f"* {where}: parameters and parameters_json_schema may not both be set.")
            if declared.get("parameters") is not None:
                check_schema(declared["parameters"], f"{where}.parameters")
    return names


def check_schema(schema: Any, where: str) -> None:
    """The API's own subset of OpenAPI schemas; anything else belongs in the JSON Schema field."""
    need("schema", isinstance(schema, dict), f"* {where}: expected a schema")
    for name in schema:
        need(
            "schema",
            name in SCHEMA_FIELDS,
            f"Invalid JSON payload received. Unknown name \"{name}\" at '{where}': no such field.",
        )
    kind = schema.get("type")
    need("schema", kind is None or str(kind).upper() in SCHEMA_TYPES, f"* {where}.type: {kind!r} is not a type")
    if str(kind).upper() == "OBJECT" and "properties" in schema:
        need("schema", isinstance(schema["properties"], dict), WRONG.format(f"{where}.properties", "object"))
        need("empty_properties", schema["properties"], f"* {where}.properties: should be non-empty for OBJECT type")
    if str(kind).upper() == "ARRAY":
        need("array_items", isinstance(schema.get("items"), dict), f"* {where}.items: missing field.")
    for name, inner in inner_schemas(schema):
        check_schema(inner, f"{where}.{name}")


def check_tool_config(body: JsonObject, names: list[str]) -> None:
    config = body.get("toolConfig")
    calling = config.get("functionCallingConfig") if config is not None else None
    if not isinstance(calling, dict):
        return
    mode = str(calling.get("mode", "AUTO")).upper()
    need("mode", mode in MODES, f"Invalid value at 'tool_config.function_calling_config.mode': {mode!r}")
    allowed = calling.get("allowedFunctionNames")
    if allowed:
        need("allowed", mode in ("ANY", "VALIDATED"), "allowed_function_names should only be set when the mode is ANY.")
        for name in allowed:
            need("allowed", name in names, f"allowed_function_names: {name!r} is not declared.")
    need("any_needs_tools", mode != "ANY" or names, "Function calling mode ANY requires function declarations.")


def check_generation(config: Any) -> None:
    if config is None:
        return
    typed("fields", config, GENERATION_FIELDS, "generation_config.", UNKNOWN, WRONG)
    schema = config.get("responseSchema") or config.get("responseJsonSchema")
    if schema is not None:
        media = config.get("responseMimeType")
        need(
            "response_type",
            media == "application/json",
            "response_schema requires response_mime_type application/json.",
        )
    if isinstance(config.get("responseSchema"), dict):
        check_schema(config["responseSchema"], "generation_config.response_schema")
    temperature = config.get("temperature")
    need(
        "temperature",
        temperature is None or 0 <= temperature <= 2,
        "* generation_config.temperature: must be in the range [0, 2].",
    )


def check_content(content: Any, at: int) -> None:
    need("contents", isinstance(content, dict), f"contents[{at}]: expected an object")
    role = content.get("role", "user")
    need("roles", role in ("user", "model", "function"), "Please use a valid role: user, model.")
    parts = content.get("parts")
    empty = f"* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty."
    need("parts", isinstance(parts, list) and parts, empty)
    for index, part in enumerate(parts):
        check_part(part, f"contents[{at}].parts[{index}]", role)


def check_part(part: Any, where: str, role: str) -> None:
    need("parts", isinstance(part, dict), f"{where}: expected an object")
    for name in part:
        need(
            "fields",
            name in PART_FIELDS,
            f"Invalid JSON payload received. Unknown name \"{name}\" at '{where}': no such field.",
        )
    data = [name for name in PART_DATA if name in part]
    oneof = f"* GenerateContentRequest.{where}.data: required oneof field 'data' must have one initialized field"
    need("one_of", len(data) == 1, oneof)
    match data[0]:
        case "text":
            need("parts", isinstance(part["text"], str), f"Invalid value at '{where}.text'")
        case "inlineData":
            check_blob(part["inlineData"], where)
        case "functionCall":
            need("call_role", role == "model", f"{where}: function calls belong to the model role.")
            call = part["functionCall"]
            named = isinstance(call, dict) and isinstance(call.get("name"), str) and NAME.match(call["name"])
            need("call", named, f"* GenerateContentRequest.{where}.function_call.name: Name cannot be empty.")
            need(
                "call",
                isinstance(call.get("args", {}), dict),
                f"Invalid value at '{where}.function_call.args': not an object.",
            )
        case "functionResponse":
            need("response_role", role != "model", f"{where}: function responses belong to the user role.")
            check_response(part["functionResponse"], where)


def check_response(response: Any, where: str) -> None:
    named = isinstance(response, dict) and isinstance(response.get("name"), str) and response["name"]
    need("response", named, f"* GenerateContentRequest.{where}.function_response.name: Name cannot be empty.")
    body = response.get("response")
    need("response", isinstance(body, dict), f"Invalid value at '{where}.function_response.response': not an object.")
    for index, part in enumerate(objects(response.get("parts"))):
        check_blob(part.get("inlineData"), f"{where}.function_response.parts[{index}]")


def check_blob(blob: Any, where: str) -> None:
    media = blob.get("mimeType") if isinstance(blob, dict) else None
    need("media", isinstance(media, str), f"* GenerateContentRequest.{where}.inline_data.mime_type: must be set.")
    assert isinstance(media, str)
    need("media", media in IMAGE_TYPES or OTHER_TYPES.match(media), f"Unsupported MIME type: {media}")
    need("media", isinstance(blob.get("data"), str), WRONG.format(f"{where}.inline_data.data", "text"))
    data = blob["data"].replace("-", "+").replace("_", "/")
    need(
        "media",
        is_base64(data + "=" * (-len(data) % 4)),
        f"Invalid value at '{where}.inline_data.data': Base64 decoding failed",
    )


def calls_in(content: JsonObject) -> list[JsonObject]:
    return [part["functionCall"] for part in objects(content.get("parts")) if "functionCall" in part]


def responses_in(content: JsonObject) -> list[JsonObject]:
    return [part["functionResponse"] for part in objects(content.get("parts")) if "functionResponse" in part]


def check_turns(contents: list[JsonObject]) -> None:
    """Calls follow a user or response turn; responses follow their calls, one each, matched by id or by name."""
    owed: list[JsonObject] = []
    idents: set[str] = set()
    before = ""
    for content in contents:
        role = content.get("role", "user")
        calls, responses = calls_in(content), responses_in(content)
        if responses:
            need(
                "turns", owed, "Please ensure that function response turn comes immediately after a function call turn."
            )
            match_responses(owed, responses)
        elif owed:
            raise unequal()
        if calls:
            after = "comes immediately after a user turn or after a function response turn."
            need("turns", before in ("user", "function"), f"Please ensure that function call turn {after}")
            for call in calls:
                ident = call.get("id")
                need("call_id_unique", ident is None or ident not in idents, f"Duplicate function call id: {ident}")
                idents.update({ident} if ident else set())
        owed, before = calls, role
    if owed:
        raise unequal()
    need(
        "last_turn",
        before != "model",
        "Please ensure that multiturn requests end with a user turn or a function response turn.",
    )


def unequal() -> WireRefused:
    return WireRefused(
        "Please ensure that the number of function response parts is equal to the number of function call parts of the "
        "function call turn.",
        rule="gemini.pairs",
    )


def match_responses(owed: list[JsonObject], responses: list[JsonObject]) -> None:
    if len(owed) != len(responses):
        raise unequal()
    left = list(owed)
    for response in responses:
        ident = response.get("id")
        answered_call = next(
            (
                call
                for call in left
                if call.get("name") == response.get("name") and (ident is None or call.get("id") in (None, ident))
            ),
            None,
        )
        name = response.get("name")
        need(
            "pairs_match",
            answered_call is not None,
            f"Function response for {name!r} (id {ident!r}) matches no function call of that turn.",
        )
        assert answered_call is not None
        left.remove(answered_call)


def check_signatures(contents: list[JsonObject], memory: Memory) -> None:
    """In the current turn, the first call of every step carries the signature it came with."""
    start = max((at for at, each in enumerate(contents) if said_by_user(each)), default=0)
    for at, content in enumerate(contents):
        first = next((part for part in objects(content.get("parts")) if "functionCall" in part), None)
        if first is None:
            continue
        signature, name = first.get("thoughtSignature"), first["functionCall"].get("name")
        if signature is None:
            missing = f"Function call is missing a thought_signature in functionCall parts: `{name}`, position {at}."
            need("signature", at < start, missing)
            continue
        fine = signature in SKIP_SIGNATURE or signature in memory.signed or sealed(signature, "thought") is not None
        need("signature_changed", fine, "Corrupted thought signature.")


def said_by_user(content: JsonObject) -> bool:
    """Whether this starts a turn: something from the user that is not a function response."""
    return content.get("role", "user") == "user" and not responses_in(content)
