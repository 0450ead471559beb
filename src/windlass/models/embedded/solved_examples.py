"""Solved turns made from the tools themselves, and the tools in few words: what a very small model learns to call from.

Pure functions of the tools and of what is asked. An example shows only the arguments that a call needs, values that
look like what people write, a result, and an answer that repeats it: a small model does what it has just seen done.
The example that is most like the request comes last, because it also does what it has seen last.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from windlass.events.values.blocks import JsonObject
from windlass.events.values.items import ToolSchema

from .tool_prompt import ARGUMENTS_KEY, TEXT_KEY, TOOL_KEY, Example, arguments_schema, made_value, written_json

SOLVED_TOOLS_MAX = 8
"""Tools that get an example; those most like the request."""
PLAIN_MAX = 2
NEAR = 0.7
"""How much of the best tool's likeness another one needs for an example of its own."""
COMMON = frozenset(re.findall(r"\w+", "a an and are do for have how i in is it me of on the this to we what you your"))
COMMON_WEIGHT = 0.3
"""What words that stand in any request count beside the others."""
BEST_MAX = 3
"""Examples of the one tool that is most like the request."""
CLAUSE_MAX = 80
ASKED_MAX = 2_000
"""Letters of a request that are looked at."""
CLAUSE = re.compile(r"[.:;(\n]")
FOLDER = re.compile(r"\b(?:director|folder)", re.IGNORECASE)
BEGIN = re.compile(r"(?:[.!?:\n]\s*|\A)\Z")
TOKEN = re.compile(r"[\w-]+(?:[./]\w+)+|\d+|[^\W\d]+|[+*/=]")

FILES, FOLDERS = ("plan.txt", "data.csv"), ("docs", "images")
VALUES: dict[str, tuple[str, ...]] = {
    "path": FILES,
    "file": FILES,
    "filename": FILES,
    "name": ("Ada", "Noah"),
    "city": ("Bern", "Quito"),
    "place": ("Bern", "Quito"),
    "country": ("Chile", "Norway"),
    "pattern": ("apple", "total"),
    "query": ("apple", "total"),
    "text": ("good morning", "see you soon"),
    "message": ("good morning", "see you soon"),
    "language": ("French", "German"),
    "url": ("https://example.com/a", "https://example.com/b"),
    "to": ("ada@example.com", "noah@example.com"),
    "email": ("ada@example.com", "noah@example.com"),
    "date": ("2024-05-17", "2023-11-02"),
    "question": ("Which one?", "How many?"),
}
"""Words that people write for a parameter of that name."""
NUMBERS = ((3, 14), (25, 6))
SHORT_RESULTS = ("7 apples, 3 pears", "the door is blue", "all is well on Monday", "31 people came")
"""What examples return while a tool is being chosen: a model that has just read much answers from that."""
WHOLE_RESULTS = (
    "3 lines\nthe door is blue\nthe wall is white",
    "plan.txt\nnotes/\n7 apples, 3 pears",
    "all is well on Monday",
    "a.txt: 31 people came\nb.txt: nobody",
    "12\tblue",
)
"""What they return when a result is there to be told: several lines, which the answer repeats whole."""
READING = ("What is written in {}?", "Open {}.", "Read {}.")
LISTING = ("What does the folder {} contain?", "What files do we have in {}?", "Name all the files in this folder.")
SEARCHING = ("Look for {}.", "Which files contain {}?", "Find the word {}.", "Where do we have {}?")
GETTING = ("What is {about}?", "Tell me {about}.")
FIGURING = ("What is {about}?", "How much is {about}?")
PHRASES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("read", "open", "cat", "view"), READING),
    **dict.fromkeys(("list", "ls", "dir"), LISTING),
    **dict.fromkeys(("search", "find", "grep", "lookup"), SEARCHING),
    **dict.fromkeys(("get", "fetch", "show"), GETTING),
    **dict.fromkeys(("compute", "calculate", "count"), FIGURING),
    "add": ("What is {} + {}?", "How much is {} plus {}?"),
    "subtract": ("What is {} - {}?", "How much is {} minus {}?"),
    "multiply": ("What is {} * {}?", "How much is {} times {}?"),
    "divide": ("What is {} / {}?", "How much is {} divided by {}?"),
}
"""How people ask for what a tool of that verb does; `about` is what its description says behind the verb. A phrase with
neither a value nor that is for tools that need no argument."""
PLAIN = (
    Example(asked="Hello!", answer="Hello! How can I help?"),
    Example(asked="Who are you?", answer="I am an assistant."),
    Example(asked="Thanks, bye!", answer="You are welcome!"),
    Example(asked="What is the tallest mountain of Africa?", answer="It is the Kilimanjaro."),
    Example(asked="Why do birds sing?", answer="They sing to find each other."),
)
"""Turns that need no tool."""


# --- the tools in words ---------------------------------------------------------------------------------------------


def clause(tool: ToolSchema) -> str:
    """What a tool does, in a few words."""
    said = CLAUSE.split(tool.description.strip(), maxsplit=1)[0].strip()
    return said[:CLAUSE_MAX] or tool.name


def fields(tool: ToolSchema) -> dict[str, JsonObject]:
    properties = arguments_schema(tool).get("properties") or {}
    return {name: field if isinstance(field, dict) else {} for name, field in properties.items()}


def needed(tool: ToolSchema) -> dict[str, JsonObject]:
    """The parameters that a call needs; of a tool that needs none, the first, if it is a string."""
    required = arguments_schema(tool).get("required") or ()
    there = fields(tool)
    parameters = {name: field for name, field in there.items() if name in required}
    if not parameters and there:
        name, field = next(iter(there.items()))
        parameters = {name: field} if field.get("type") == "string" else {}
    return parameters


def tool_lines(tools: tuple[ToolSchema, ...], answer: str) -> str:
    """The tools, and how to use them, in as few words as will do. Depends on the tools only."""
    lines = ["You pick one tool for each request.", "Tools:"]
    lines += [f"- {tool.name}({', '.join(needed(tool))}){_like(tool)}: {clause(tool)}." for tool in tools]
    if answer:
        lines.append(f"- {answer}({TEXT_KEY}): Answer the user directly, or after a tool has returned.")
    lines.append(f'Reply with JSON only: {{"{TOOL_KEY}": "<name>", "{ARGUMENTS_KEY}": {{...}}}}')
    return "\n".join(lines)


def _like(tool: ToolSchema) -> str:
    """The schema of arguments that a name does not explain."""
    plain = all(field.get("type") in ("string", "integer", "number", "boolean") for field in needed(tool).values())
    return "" if plain else f" with {ARGUMENTS_KEY} like {written_json(arguments_schema(tool))}"


# --- the examples ---------------------------------------------------------------------------------------------------


def solved_examples(
    tools: tuple[ToolSchema, ...], free: bool, asked: str = "", *, told: bool = False
) -> tuple[Example, ...]:
    """Solved turns: of the tools that have most in common with what is asked, the likeliest several times and last; of
    every tool if none has. Where an answer is free, turns without a tool too. `told` = a call has returned, and what
    is to be learned is to tell its result."""
    results = WHOLE_RESULTS if told else SHORT_RESULTS
    made = [[solved(tool, number, way, results) for way in range(len(ways(tool)))] for number, tool in enumerate(tools)]
    texts = ["\n".join([about(tool), *(one.asked for one in group)]) for tool, group in zip(tools, made, strict=True)]
    likeness = Likeness([*texts, *(example.asked for example in PLAIN)], asked)
    ranked: list[tuple[float, int, list[Example]]] = []
    for number, (tool, group) in enumerate(zip(tools, made, strict=True)):
        group.sort(key=lambda example: likeness.of(example.asked))
        ranked.append((likeness.of(group[-1].asked) + likeness.of(about(tool)) / 2, -number, group))
    ranked.sort(key=lambda entry: entry[:2])
    best = ranked[-1][0]
    near = [group for score, _, group in ranked if score >= best * NEAR][-SOLVED_TOOLS_MAX:]
    calls = [*(group[-1] for group in near[:-1]), *near[-1][-BEST_MAX:]]
    if not free:
        return tuple(calls)
    plain = sorted(PLAIN, key=lambda example: likeness.of(example.asked))
    if likeness.of(plain[-1].asked) > best:
        return (*calls, *plain[-PLAIN_MAX:])
    return (plain[0], *calls)  # the least like it: one that begins as the request does would be answered alike


def about(tool: ToolSchema) -> str:
    """What a tool is for, in words that a request may share."""
    return f"{tool.name.replace('_', ' ')} {clause(tool)} {' '.join(needed(tool))}"


def ways(tool: ToolSchema) -> tuple[str, ...]:
    """How a call of the tool may be asked for; the first way is in the words of its description."""
    verbs = (tool.name.split("_")[0].lower(), clause(tool).split(" ")[0].lower())
    phrases = next((PHRASES[verb] for verb in verbs if verb in PHRASES), ())
    count, bare = len(needed(tool)), not arguments_schema(tool).get("required")
    return ("", *(phrase for phrase in phrases if (bare if is_bare(phrase) else 0 < count >= phrase.count("{}"))))


def is_bare(phrase: str) -> bool:
    """Whether a phrase has no place for a value."""
    return bool(phrase) and "{" not in phrase


def solved(tool: ToolSchema, number: int, way: int, results: Sequence[str] = SHORT_RESULTS) -> Example:
    """A request, the call that it means, what came back, and the answer."""
    phrase = ways(tool)[way]
    arguments: JsonObject = {}
    for name, field in () if is_bare(phrase) else needed(tool).items():
        words = VALUES.get(name.lower(), ())
        if words is FILES and FOLDER.search(clause(tool)):
            words = FOLDERS
        arguments[name] = likely(field, words, number + way, len(arguments))
    result = results[(number + way) % len(results)]
    return Example(
        asked=asked_for(tool, arguments, phrase),
        tool=tool.name,
        arguments=arguments,
        result=result,
        answer=f"The result is: {result}",
    )


def asked_for(tool: ToolSchema, arguments: JsonObject, phrase: str) -> str:
    """How a person would ask for a call: in a phrase, else in the words of its description, with the values in the
    place of what they are called."""
    values = [str(value) for value in arguments.values() if isinstance(value, str | int | float)]
    plain, loose = clause(tool), list(values)
    for name, value in arguments.items():
        named = re.search(rf"\b(?:an?|the|another|some) {re.escape(name)}\b", plain)
        if named and str(value) in loose:
            plain = plain[: named.start()] + str(value) + plain[named.end() :]
            loose.remove(str(value))
    if phrase:
        said = plain.partition(" ")[2] + (f" {' and '.join(loose)}" if loose else "")
        return phrase.format(*values, about=said)
    return f"{plain}: {' and '.join(loose)}" if loose else f"{plain}."


def likely(field: JsonObject, words: Sequence[str], number: int, place: int) -> Any:
    """A value that people would write."""
    if field.get("type") in ("integer", "number") and "enum" not in field:
        return NUMBERS[number % len(NUMBERS)][place % 2]
    if not words or field.get("enum") or field.get("type") not in ("string", None):
        return made_value(field, place)
    return words[number % len(words)]


# --- likeness -------------------------------------------------------------------------------------------------------


def tokens(text: str) -> list[str]:
    """A text as what its words stand for: a number, a file, a name, or the beginning of a word."""
    return [
        _token(match[0], BEGIN.search(text[max(0, match.start() - 3) : match.start()]) is not None)
        for match in TOKEN.finditer(text)
    ]


def _token(word: str, begins: bool) -> str:
    if word.isdecimal():
        return "<number>"
    if "." in word or ("/" in word and len(word) > 1):
        return "<file>"
    if not begins and word[:1].isupper():
        return "<name>"
    plain = word.lower()
    return plain[:-1] if len(plain) > 3 and plain.endswith("s") else plain


class Likeness:
    """How much some texts have in common with what is asked: the words they share, rare ones counting more."""

    def __init__(self, texts: Sequence[str], asked: str) -> None:
        count = Counter(token for text in texts for token in set(tokens(text)))
        self._weight = {
            token: math.log((1 + len(texts)) / number) * (COMMON_WEIGHT if token in COMMON else 1.0)
            for token, number in count.items()
        }
        self._asked = set(tokens(asked[:ASKED_MAX]))

    def of(self, text: str) -> float:
        """The likeness of one of the texts. Sorted, so that the sum is the same everywhere."""
        return sum(self._weight.get(token, 0.0) for token in sorted(self._asked & set(tokens(text))))
