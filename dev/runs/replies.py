"""What models say: every kind of part in all four wire formats, every way to end, and what comes beside the answer."""

from __future__ import annotations

import base64
import functools

import windlass
from windlass.events.values.blocks import Text
from windlass.events.values.items import ModelSettings
from windlass.testing.model_server import (
    FORMATS,
    Answer,
    Call,
    Decline,
    Format,
    Picture,
    Say,
    ServerCall,
    Think,
    Tokens,
    fault,
)

from .stage import QUICK, Play, Stage

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(24)).decode()
BILL = {
    "copilot_usage": {
        "token_details": [{"batch_size": 1, "cost_per_batch": 3, "token_count": 7, "token_type": "input"}],
        "total_nano_aiu": 21,
    }
}


@windlass.tool(contract="pure")
def add(x: int, y: int) -> int:
    "Add two numbers."
    return x + y


async def answers(stage: Stage, form: Format) -> None:
    """One conversation with everything that a format can carry."""
    counts = Tokens(input=900, output=60, cache_read=500, cache_write=100, reasoning=20)
    script = (
        Answer(
            parts=(
                Think(text="two numbers, so I add them"),
                Say(text="I add them."),
                Call(name="add", args={"x": 1, "y": 2}),
            ),
            tokens=counts,
        ),
        Answer(parts=(ServerCall(query="what is 1 + 2", result="three"), Say(text="It is three.")), tokens=counts),
        Answer(parts=(Say(text="A picture: "), Picture(data=PNG)), beside=BILL, tokens=counts),
        Answer(parts=(Say(text="so far and no"),), finish="length"),
        Answer(parts=(Say(text="one"),), finish="stop_sequence"),
        Answer(parts=(Say(text="so far"),), finish="pause" if form == "anthropic" else "stop"),
        Answer(parts=(Decline(text="I will not."),)),
        Answer(parts=(Say(text="The "),), finish="content_filter"),
    )
    async with stage.serving(*script) as server:
        settings = ModelSettings(thinking="low", temperature=None)
        agent = windlass.Agent(
            "worker", model=stage.model(server, form), tools=[add], settings=QUICK, model_settings=settings
        )
        async with stage.open(agent) as rt:
            session = await stage.session(rt, agent, f"answers_{form}")
            await stage.said(session, "what is 1 + 2?")
            for asked in ("draw it", "tell it", "stop at a word", "go on", "do harm", "say it"):
                await stage.said(session, [Text(text=asked)])
            if form == "gemini":
                server.say(Answer(parts=(Say(text="unclear"),), finish="other"))
                await stage.said(session, "once more")
            await session.close("the day is over")


async def endings(stage: Stage) -> None:
    """Ends that only some endpoints know, and counts that nobody reported."""
    script = (
        Answer(parts=(Say(text="half"),), finish="error"),
        fault("usage_missing"),
        "counted by nobody",
        fault("only_reasoning"),
        "there",
        fault("empty_text"),
        "there again",
    )
    async with stage.serving(*script) as server:
        agent = windlass.Agent("worker", model=stage.model(server), settings=QUICK)
        async with stage.open(agent) as rt:
            session = await stage.session(rt, agent, "endings")
            for asked in ("one", "two", "three", "four"):
                await stage.said(session, asked)


SCENARIOS: dict[str, Play] = {
    **{f"answers_{form}": functools.partial(answers, form=form) for form in FORMATS},
    "endings": endings,
}
