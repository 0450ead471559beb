"""Content by pattern: what fits is in no result that a model sees or a log keeps, whichever tool gave it."""

from __future__ import annotations

from typing import Any

import pytest

import windlass
from windlass.events.errors import UsageError
from windlass.events.tools.calls import ToolFinished
from windlass.events.tools.jobs import JobFinished
from windlass.testing import ScriptedModel, call
from windlass.tools.planes.withheld_content import MARK, Withheld

SECRET = "sk-12345678abcdef"
POLICY = windlass.Policy(default="allow", exclude_patterns=[r"sk-[a-z0-9]{8,}", r"\b\d{16}\b"])


@windlass.tool
def small() -> str:
    "A text."
    return f"the key is {SECRET}, keep it"


@windlass.tool
def data() -> dict[str, Any]:
    "Data, with the secret as a value, a name and a number."
    return {"a": [SECRET], SECRET: 1, "card": 4111_1111_1111_1111, "n": 7}


@windlass.tool
def large() -> str:
    "More than the conversation holds, with the secret in the middle and at the end."
    return "x" * 50_000 + SECRET + "y" * 50_000 + SECRET


@windlass.tool
def broken() -> str:
    "Raises with it."
    raise windlass.ToolError(f"no luck with {SECRET}")


async def test_what_fits_a_pattern_is_in_no_result(tmp_path):
    seen = []

    def last(request):
        seen.append(str(request.items))
        return "done"

    names = ["small", "data", "large", "broken"]
    model = ScriptedModel([[call(name) for name in names], [call("read_result", call_id="c6.2")], last])
    agent = windlass.Agent("a", model=model, tools=[small, data, large, broken, "read_result"], policy=POLICY)
    async with windlass.open(tmp_path / "s.db", agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        results = [r.event async for r in session.records() if isinstance(r.event, ToolFinished)]
    assert len(results) == 5
    whole = str(results)
    assert SECRET not in whole
    assert "4111111111111111" not in whole
    assert SECRET not in seen[0]
    assert MARK in seen[0]
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


def test_the_rest_of_a_text_stays_as_it_is_and_a_clean_one_is_the_same_object():
    withheld = Withheld((r"\d{3}",))
    assert withheld.text("a 123 b 456 c") == f"a {MARK} b {MARK} c"
    text = "nothing here"
    assert withheld.text(text) is text


def test_a_text_that_is_too_long_to_be_searched_is_withheld_whole():
    withheld = Withheld(("(a|b|c){100}x{100}",))
    withheld._patterns[0].chars_max = 10
    assert withheld.text("q" * 11) == "[withheld by policy: 11 characters are too many to be searched]"


@pytest.mark.parametrize("wrong", ["x*", "(", "(?=x)", "", "a" * 2_000])
def test_what_cannot_be_searched_for_is_refused_when_the_agent_is_made(wrong):
    with pytest.raises(UsageError, match="exclude_patterns="):
        windlass.Agent("a", policy=windlass.Policy(exclude_patterns=[wrong]))


@pytest.mark.parametrize("lines", ["", "yes | head -c 8180; "])
async def test_what_fits_a_pattern_is_not_told_with_the_end_of_a_job_nor_with_its_beginning(tmp_path, lines):
    """Also if the tail that is told begins in the middle of it."""
    (tmp_path / "key").write_text(SECRET)
    quick = call("shell", command=f"cat key; {lines}until [ -e go ]; do sleep 0.02; done", timeout_ms=500)
    agent = windlass.Agent("a", model=ScriptedModel([quick, "ok", "told"]), tools=["shell"], policy=POLICY)
    async with windlass.open(tmp_path / "w.db", agents=[agent], jobs=tmp_path / "jobs") as rt:
        session = await rt.session(agent, "s", workspace=tmp_path)
        await session.prompt("go")
        await session.result()
        (tmp_path / "go").touch()
        async for event in session.events(after=0):
            if isinstance(event, JobFinished):
                break
        await session.wait_idle()
        told = str([record.event async for record in session.records()])
    assert "job.finished" in told or "JobFinished" in told
    assert SECRET not in told
    assert SECRET[-8:] not in told
    assert MARK in told


async def test_what_fits_a_pattern_is_not_read_in_two_halves(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("x" * 40 + SECRET + "Y" * 3_000 + SECRET + "Z" * 9_000 + "\n")
    columns = [1, *range(41, 58), 3_060]
    model = ScriptedModel(
        [[call("read", path="a.txt", column=c) for c in columns], [call("grep", pattern="x")], "done"]
    )
    agent = windlass.Agent("a", model=model, tools=["read", "grep"], policy=POLICY)
    async with windlass.open(tmp_path / "s.db", agents=[agent]) as rt:
        session = await rt.session(agent, "s", workspace=work)
        told = str([e.body for e in [e async for e in session.prompt("go")] if isinstance(e, ToolFinished)])
    assert "YYYY" in told
    assert [part for part in (SECRET[at : at + 6] for at in range(len(SECRET) - 5)) if part in told] == []


async def test_what_fits_a_pattern_is_not_taken_in_two_halves_from_the_output_of_a_job():
    from windlass.tools.jobs.job_host import JobOutput, clean_output

    printed = b"A" * 50 + SECRET.encode() + b"B" * 50

    class Host:
        async def output(self, job_id: str, offset: int, most: int) -> JobOutput:
            data = printed[offset : offset + most]
            return JobOutput(data=data, offset=offset, size=len(printed))

    host: Any = Host()
    blotted = Withheld(tuple(POLICY.exclude_patterns)).blotted
    for at in range(45, 75):
        first = await clean_output(host, "j", 0, at, blotted)
        second = await clean_output(host, "j", at, 1_000, blotted)
        both = first.data + second.data
        assert len(both) == len(printed)
        assert not any(SECRET[i : i + 4].encode() in both for i in range(3, len(SECRET) - 4))
