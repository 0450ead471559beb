"""Tools in words: how a model without tool calls is told of them, shown examples of them and bound to a form.

Pure functions of the tools, so that what they say stays the same over a session.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from windlass.events.values.blocks import JsonObject, ResultBlock, Terminal, Text, Value
from windlass.events.values.items import (
    AssistantItem,
    AssistantPart,
    CallPart,
    HistoryItem,
    ResultItem,
    ToolSchema,
    UserItem,
)

TOOL_KEY, ARGUMENTS_KEY, TEXT_KEY, INPUT_KEY = "tool", "arguments", "text", "input"
ANSWER_NAMES = ("answer", "final_answer", "reply_to_user")
"""What the final answer is called, which is written like one more tool: the first that no tool has. A small model that
must choose between two forms chooses by form; among equals it chooses by meaning."""
EXAMPLE_TOOLS_MAX = 4
EXAMPLE_NUMBERS, EXAMPLE_WORDS = (3, 14), ("example", "test")


class Example(Value, frozen=True, kw_only=True):
    """A turn to learn from: what was asked, and the call or the answer that was right; or both, with the result of the
    call between them."""

    asked: str
    tool: str | None = None
    arguments: JsonObject = {}
    result: str = ""
    answer: str = ""


def tool_words(tools: tuple[ToolSchema, ...], answer: str) -> str:
    """The tools, and how to use them, in words. Depends on the tools only, so that it stays the same over a session."""
    lines = ["You pick one tool for each request.", "Tools:"]
    lines += [f"- {signature(tool)}: {tool.description.strip() or 'no description'}" for tool in tools]
    if answer:
        lines.append(f"- {answer}({TEXT_KEY}): Answer the user directly.")
    lines.append(f'Reply with JSON only: {{"{TOOL_KEY}": "<name>", "{ARGUMENTS_KEY}": {{...}}}}')
    return "\n".join(lines)


def signature(tool: ToolSchema) -> str:
    """A tool as a function: small models read this better than a schema. Where it says too little, the schema too."""
    schema = arguments_schema(tool)
    words, whole = [], True
    for name, field in (schema.get("properties") or {}).items():
        kind = field.get("type") if isinstance(field, dict) else None
        whole = whole and kind in ("string", "integer", "number", "boolean") and "enum" not in field
        words.append(name if kind in ("string", None) or not isinstance(kind, str) else f"{name}: {kind}")
    more = "" if whole else f" with {ARGUMENTS_KEY} like {written_json(schema)}"
    return f"{tool.name}({', '.join(words)}){more}"


def written_json(value: Any) -> str:
    """JSON with a space after each comma and colon, as the models have read it most often."""
    return json.dumps(value, ensure_ascii=False)


def arguments_schema(tool: ToolSchema) -> JsonObject:
    """What the arguments of a tool must look like; a grammar tool takes one string here."""
    if tool.grammar is not None:
        return {
            "type": "object",
            "properties": {INPUT_KEY: {"type": "string"}},
            "required": [INPUT_KEY],
            "additionalProperties": False,
        }
    return tool.parameters or {"type": "object", "properties": {}}


def reply_schema(tools: tuple[ToolSchema, ...], answer: str, text: JsonObject, *, loose: bool) -> JsonObject:
    """The schema of one answer: a call of one of the tools or, where it has a name, the final answer."""
    definitions: JsonObject = {}
    branches = []
    for number, tool in enumerate(tools):
        arguments = {"type": "object"} if loose else hoisted(arguments_schema(tool), f"tool{number}", definitions)
        branches.append(closed({TOOL_KEY: {"const": tool.name}, ARGUMENTS_KEY: arguments}))
    if answer:
        final = closed({TEXT_KEY: hoisted(text, answer, definitions)})
        branches.append(closed({TOOL_KEY: {"const": answer}, ARGUMENTS_KEY: final}))
    return {"oneOf": branches, "$defs": definitions} if definitions else {"oneOf": branches}


def closed(properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def hoisted(schema: JsonObject, prefix: str, definitions: JsonObject) -> JsonObject:
    """The schema with its definitions moved to the root, under names of their own, where its references find them."""
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "definitions", "$schema", "$id")}
    moved = {}
    for place in ("$defs", "definitions"):
        for name, value in (schema.get(place) or {}).items():
            moved[f"#/{place}/{name}"] = f"{prefix}_{name}"
            definitions[f"{prefix}_{name}"] = value
    for name in moved.values():
        definitions[name] = redirected(definitions[name], moved)
    redirected_schema: JsonObject = redirected(inner, moved)
    return redirected_schema


def redirected(value: Any, moved: dict[str, str]) -> Any:
    """A schema with its references pointing to where the definitions went."""
    if isinstance(value, dict):
        return {
            key: f"#/$defs/{moved[item]}"
            if key == "$ref" and isinstance(item, str) and item in moved
            else redirected(item, moved)
            for key, item in value.items()
        }
    return [redirected(item, moved) for item in value] if isinstance(value, list) else value


def default_examples(tools: tuple[ToolSchema, ...], free: bool) -> tuple[Example, ...]:
    """A few turns made from the tools themselves, with plain answers between them. The first tool comes last: a small
    model favours what it read last, and people list the most important tool first."""
    calls = [made_example(tool) for tool in tools[:EXAMPLE_TOOLS_MAX]]
    first, rest = calls[:1], calls[:0:-1]
    if not free:
        return (*rest, *first)
    hello = Example(asked="Hello!", answer="Hello! How can I help?")
    who = Example(asked="Who are you?", answer="I am an assistant.")
    told = [msgspec.structs.replace(call, result="42", answer="The result is 42.") for call in rest[:1]]
    return (hello, *told, *rest[1:], who, *first)


def made_example(tool: ToolSchema) -> Example:
    """A call of a tool with made-up arguments, asked for in its own words."""
    arguments: JsonObject = {}
    for name, field in (arguments_schema(tool).get("properties") or {}).items():
        arguments[name] = made_value(field if isinstance(field, dict) else {}, len(arguments))
    said = ", ".join(f"{name}: {value}" for name, value in arguments.items())
    return Example(asked=f"{tool.description.strip() or tool.name} {said}".strip(), tool=tool.name, arguments=arguments)


def made_value(field: JsonObject, number: int) -> Any:
    """Some value of a field's kind; only for examples."""
    if field.get("enum"):
        return field["enum"][0]
    kind = field.get("type")
    plain: dict[Any, Any] = {"boolean": True, "array": [], "object": {}, "null": None}
    if kind in ("integer", "number"):
        return EXAMPLE_NUMBERS[number % 2]
    return plain[kind] if isinstance(kind, str) and kind in plain else EXAMPLE_WORDS[number % 2]


def example_items(example: Example, answer: str) -> list[HistoryItem]:
    """An example as the turns it stands for."""
    turns: list[HistoryItem] = [spoken(example.asked)]
    if example.tool:
        turns.append(written(said_as_json(example.tool, example.arguments)))
        if example.result:
            turns.append(spoken(f"{example.tool} returned:\n{example.result}"))
    if answer and (example.answer or not example.tool):
        turns.append(written(said_as_json(answer, {TEXT_KEY: example.answer})))
    return turns


def spoken(text: str) -> UserItem:
    return UserItem(content=(Text(text=text),), origin="example")


def written(text: str) -> AssistantItem:
    return AssistantItem(content=(Text(text=text),))


def said_as_json(tool: str, arguments: JsonObject | None) -> str:
    return written_json({TOOL_KEY: tool, ARGUMENTS_KEY: arguments or {}})


def in_words(item: HistoryItem) -> HistoryItem:
    """An item without tool calls: a call as the JSON that would have made it, a result as something said."""
    if isinstance(item, ResultItem):
        head = "failed" if item.is_error else "returned"
        return UserItem(
            key=item.key, origin="result", content=(Text(text=f"{item.tool} {head}:"), *shown(item.content))
        )
    if not isinstance(item, AssistantItem):
        return item
    if not any(isinstance(part, CallPart) for part in item.content):
        return item
    return AssistantItem(
        key=item.key,
        content=tuple(part_in_words(part) for part in item.content),
        provider=item.provider,
        model=item.model,
    )


def shown(content: tuple[ResultBlock, ...]) -> tuple[Any, ...]:
    """A result's blocks as a prompt may hold them."""
    return tuple(Text(text=block.text) if isinstance(block, Terminal) else block for block in content)


def part_in_words(part: AssistantPart) -> AssistantPart:
    if not isinstance(part, CallPart):
        return part
    arguments = part.args if part.text is None else {INPUT_KEY: part.text}
    return Text(text=said_as_json(part.tool, arguments))
