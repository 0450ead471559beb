"""Faults of content: what a model can say wrong, as functions from the script's answer to a worse one."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from windlass.testing.model_server.answers import Answer, Call, Decline, Say, Think, Tokens
from windlass.testing.model_server.wires.parsed import ParsedRequest

from .fault import Fault

WRONG_USAGE = 999_999_999
OTHER_MODEL = "another-model-than-asked"


def changed(answer: Answer, **fields: object) -> Answer:
    return msgspec.structs.replace(answer, **fields)


def some_call(answer: Answer, request: ParsedRequest) -> Call:
    """The answer's own call, else one of a tool that the request declares."""
    if answer.calls:
        return answer.calls[0]
    name = next(iter(request.tools), "some_tool")
    return Call(name=name, args={"value": "something long enough to be cut in half"})


def only(answer: Answer, *parts: Call | Say | Think | Decline, finish: object = None) -> Answer:
    return changed(answer, parts=parts, finish=finish)


def malformed_args(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    base = some_call(answer, request)
    return only(answer, msgspec.structs.replace(base, args='{"value": "unclosed, trailing: ,}'))


def args_not_object(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    return only(answer, msgspec.structs.replace(some_call(answer, request), args='["not", "an", "object"]'))


def partial(answer: Answer, request: ParsedRequest) -> Call:
    base = some_call(answer, request)
    whole = base.args if isinstance(base.args, str) else msgspec.json.encode(base.args or {"value": "cut"}).decode()
    return msgspec.structs.replace(base, args=whole[: max(1, len(whole) // 2)])


def length_partial_call(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    return only(answer, partial(answer, request), finish="length")


def partial_call_as_tool_calls(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    return only(answer, partial(answer, request), finish="tool_calls")


def unknown_tool(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    return only(answer, msgspec.structs.replace(some_call(answer, request), name="no_such_tool"))


def wrong_case_tool(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    base = some_call(answer, request)
    return only(answer, msgspec.structs.replace(base, name=base.name.swapcase()))


def duplicate_ids(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    base = msgspec.structs.replace(some_call(answer, request), call_id="dupdupdup")
    return only(answer, base, base)


def empty_ids(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    return only(answer, msgspec.structs.replace(some_call(answer, request), call_id=""))


def reused_ids(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    """The id of a call of an earlier turn; in a first turn, one that the next will meet again."""
    earlier = [call.call_id for message in request.messages for call in message.calls]
    return only(
        answer, msgspec.structs.replace(some_call(answer, request), call_id=earlier[0] if earlier else "reused000")
    )


def same_call_twice(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    base = msgspec.structs.replace(some_call(answer, request), call_id=None)
    return only(answer, base, base)


def many_calls(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    base = msgspec.structs.replace(some_call(answer, request), call_id=None)
    return only(answer, *(base for _ in range(count)))


def empty_reply(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    return changed(answer, parts=(), finish="stop", tokens=Tokens(output=0))


def empty_text(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    return only(answer, Say(text=""), finish="stop")


def only_reasoning(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    return only(answer, Think(text="I think, and say nothing."), finish="stop")


def content_filter(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    return only(answer, Say(text="This begins well and then"), finish="content_filter")


def refusal(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    return only(answer, Decline(text="I cannot help with that."))


def max_tokens(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    return only(answer, Say(text=answer.text or "This text stops in the mid"), finish="length")


def usage_missing(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    return changed(answer, usage="never")


def usage_wrong(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    return changed(answer, tokens=Tokens(input=WRONG_USAGE, output=0))


def usage_negative(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    return changed(answer, tokens=Tokens(input=-5, output=-7))


def usage_cumulative(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    return changed(answer, usage="every_frame")


def model_switched(answer: Answer, request: ParsedRequest, count: int) -> Answer:
    return changed(answer, model=OTHER_MODEL)


MUTATIONS: dict[str, Callable[[Answer, ParsedRequest, int], Answer]] = {
    each.__name__: each
    for each in (
        malformed_args,
        args_not_object,
        length_partial_call,
        partial_call_as_tool_calls,
        unknown_tool,
        wrong_case_tool,
        duplicate_ids,
        empty_ids,
        reused_ids,
        same_call_twice,
        many_calls,
        empty_reply,
        empty_text,
        only_reasoning,
        content_filter,
        refusal,
        max_tokens,
        usage_missing,
        usage_wrong,
        usage_negative,
        usage_cumulative,
        model_switched,
    )
}

NOT_ASCII = "Zażółć gęślą jaźń — 猫が好き 🦀"
"""What an answer says when a stream is to be cut inside a character."""


def mutate(answer: Answer, request: ParsedRequest, wanted: Fault) -> Answer:
    """The answer that a fault makes of the script's one."""
    if wanted.how == "mutate":
        return MUTATIONS[wanted.mutation](answer, request, wanted.count)
    if wanted.how == "cut" and wanted.at == "utf8" and answer.text.isascii():
        return only(answer, Say(text=NOT_ASCII))
    if wanted.how in ("cut", "stall", "error_event", "first_late") and not answer.parts:
        return only(answer, Say(text="something to be disturbed"))
    return answer
