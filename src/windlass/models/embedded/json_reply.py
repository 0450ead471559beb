"""Reads what a model wrote as JSON: a call or the final answer, complete or while it grows.

It parses and says what is wrong; it never repairs.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from windlass.events.values.blocks import JsonObject, Text
from windlass.events.values.items import ProposedCall, ToolSchema
from windlass.models.base import CallPartDelta, Delta, Reply, TextPart, complete_args

from .tool_prompt import ARGUMENTS_KEY, INPUT_KEY, TEXT_KEY, TOOL_KEY

OPENING = re.compile(rf'\s*\{{\s*"{TOOL_KEY}"\s*:\s*"([^"\\]*)"')
OPENING_TEXT = re.compile(rf'\s*,\s*"{ARGUMENTS_KEY}"\s*:\s*\{{\s*"{TEXT_KEY}"\s*:\s*"')
FENCE = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}


def compact(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def read_reply(written: str, tools: dict[str, ToolSchema], answer: str, *, cut: bool) -> ProposedCall | Text | str:
    """The call or the text that an answer means, or what is wrong with it. `answer` is what the final answer is
    called, empty if a call is required."""
    text = bare_json(written)
    value, problem = complete_args(text) if text else (None, "it is empty")
    if value is None:
        if cut and (half := read_half(written, tools, answer)):
            return half
        if answer and text and "{" not in text:
            return Text(text=written.strip())  # a model that nobody constrains may simply answer
        return str(problem)
    if TOOL_KEY not in value:
        return f"the object needs {TOOL_KEY!r} and {ARGUMENTS_KEY!r}"
    if not answer or value[TOOL_KEY] != answer:
        return read_call(value, tools)
    arguments = value.get(ARGUMENTS_KEY)
    if not isinstance(arguments, dict) or TEXT_KEY not in arguments:
        return f"{answer!r} needs {TEXT_KEY!r} in its {ARGUMENTS_KEY}"
    final = arguments[TEXT_KEY]
    return Text(text=final if isinstance(final, str) else compact(final))


def read_half(written: str, tools: dict[str, ToolSchema], answer: str) -> ProposedCall | Text | None:
    """What an answer means that was cut off: the text so far, or a call that cannot be made."""
    opening = OPENING.match(written)
    if opening and opening[1] in tools:
        why = "the call was cut off before its end"
        return ProposedCall(ordinal=0, tool=opening[1], malformed=written, error=why)
    text = OPENING_TEXT.match(written, opening.end()) if opening and opening[1] == answer else None
    return Text(text=unescaped(written[text.end() :])[0]) if text else None


def read_call(value: JsonObject, tools: dict[str, ToolSchema]) -> ProposedCall | str:
    """A call out of its JSON."""
    name, arguments = value[TOOL_KEY], value.get(ARGUMENTS_KEY, {})
    tool = tools.get(name) if isinstance(name, str) else None
    if tool is None:
        return f"there is no tool {name!r}, only {', '.join(tools)}"
    if not isinstance(arguments, dict):
        return f"the {ARGUMENTS_KEY} of {name!r} must be an object"
    if tool.grammar is None:
        return ProposedCall(ordinal=0, tool=tool.name, args=arguments)
    text = arguments.get(INPUT_KEY)
    return ProposedCall(ordinal=0, tool=tool.name, text=text) if isinstance(text, str) else f"{INPUT_KEY!r} is missing"


def bare_json(written: str) -> str:
    """The JSON of an answer: what stands in a code fence if there is one, else from the first brace to the last."""
    fenced = FENCE.search(written)
    text = (fenced[1] if fenced else written).strip()
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text


def remaining(reply: Reply, watch: Watch | None) -> list[Delta]:
    """The deltas that were not sent while the answer was written."""
    if reply.calls:
        call = reply.calls[0]
        written = call.malformed if call.text is None else call.text
        fragment = compact(call.args) if written is None else written
        name = [] if watch is not None and watch.named else [CallPartDelta(ordinal=0, tool=call.tool)]
        return [*name, CallPartDelta(ordinal=0, fragment=fragment)]
    if watch is not None and watch.answering:
        return []
    return [TextPart(text=block.text) for block in reply.blocks if isinstance(block, Text)]


class Watch:
    """Turns the JSON of an answer into deltas while it is written: the text of an answer as it grows, the name of
    a called tool as soon as it is known, its arguments when the answer is complete."""

    def __init__(self, answer: str) -> None:
        self._answer = answer
        self.named = False
        self.answering = False
        self._text = ""
        self._start = 0

    def feed(self, piece: Delta | list[Delta]) -> list[Delta]:
        deltas: list[Delta] = []
        for delta in piece if isinstance(piece, list) else (piece,):
            if isinstance(delta, TextPart):
                self._text += delta.text
                deltas += self._grown()
            else:
                deltas.append(delta)
        return deltas

    def _grown(self) -> list[Delta]:
        if self.named:
            return []
        if not self.answering:
            opening = OPENING.match(self._text)
            if opening and opening[1] != self._answer:
                self.named = True
                return [CallPartDelta(ordinal=0, tool=opening[1])]
            begun = OPENING_TEXT.match(self._text, opening.end()) if opening else None
            if not begun:
                return []
            self.answering, self._start = True, begun.end()
        text, used = unescaped(self._text[self._start :])
        self._start += used
        return [TextPart(text=text)] if text else []


def unescaped(text: str) -> tuple[str, int]:
    """As much of the inside of a JSON string as is complete, and how many characters that took. Stops at its end."""
    out: list[str] = []
    index = 0
    while index < len(text) and text[index] != '"':
        if text[index] != "\\":
            out.append(text[index])
            index += 1
            continue
        if index + 1 >= len(text):
            break
        if text[index + 1] != "u":
            out.append(ESCAPES.get(text[index + 1], text[index + 1]))
            index += 2
            continue
        taken = unicode_escape(text[index:])
        if taken is None:
            break
        out.append(taken[0])
        index += taken[1]
    return "".join(out), index


def unicode_escape(text: str) -> tuple[str, int] | None:
    r"""The character of a `\uXXXX` escape, a surrogate pair taken together; none when it is not all there yet."""
    if len(text) < 6:
        return None
    try:
        first = int(text[2:6], 16)
    except ValueError:
        return "\ufffd", 6
    if not 0xD800 <= first < 0xDC00:
        return (chr(first) if not 0xDC00 <= first < 0xE000 else "\ufffd"), 6
    if len(text) < 12:
        return None
    try:
        return msgspec.json.decode(f'"{text[:12]}"', type=str), 12
    except (msgspec.DecodeError, UnicodeError):
        return "\ufffd", 6
