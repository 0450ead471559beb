"""Hooks at permissions and credentials, hooks of single runs, and hooks that say what nobody understands."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

import windlass
from windlass.events.hooks import HookRuled
from windlass.events.tools.calls import ToolDenied, ToolFinished
from windlass.events.tools.permissions import (
    ApproverMissed,
    PermissionApproved,
    PermissionDenied,
    PermissionRequested,
)
from windlass.events.turns import ModelFailed
from windlass.events.values.failures import failure
from windlass.models.base import ModelInfo, Request
from windlass.models.catalogue.credentials import from_callable, from_environment, from_file, from_keyring, from_value
from windlass.models.catalogue.endpoints import ENDPOINTS
from windlass.models.catalogue.oauth import from_oauth
from windlass.models.transport.http_model import WireModel
from windlass.runtime.api.session import Session
from windlass.runtime.bind.local_code import HOOKED_RUNS_MAX
from windlass.runtime.hooks.external_hooks import CommandHook
from windlass.runtime.hooks.hook import Allowed, Changed, Denied, Hook, Moment
from windlass.testing.model_server import ModelServer
from windlass.testing.scripted import ScriptedModel, call

SECRET = "sk-hooks-00000001"


@windlass.tool
def pay(cents: int) -> str:
    "Pay."
    return f"paid {cents}"


def clerk(*turns: Any, **more: Any) -> windlass.Agent:
    more.setdefault("policy", windlass.Policy(rules=(windlass.ask("pay"),)))
    return windlass.Agent("clerk", model=ScriptedModel(list(turns)), tools=[pay], **more)


def guard(point: Any, run: Any, name: str = "g", **more: Any) -> Hook:
    return Hook(point=point, run=run, kind="guard", name=name, **more)


async def events_of(session: Session) -> list[Any]:
    return [record.event async for record in session.records()]


def only(events: list[Any], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def rulings(events: list[Any]) -> list[tuple[str, str]]:
    return [(e.ruling.hook_id, e.ruling.outcome) for e in only(events, HookRuled)]


async def run_once(agent: windlass.Agent, **more: Any) -> tuple[Any, list[Any]]:
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go", **more)
        return await session.result(), await events_of(session)


# --- permission ---


async def test_a_guard_answers_a_permission_in_a_persons_place():
    seen: list[Moment] = []

    def small(moment: Moment) -> Any:
        seen.append(moment)
        if moment.value["detail"]["args"]["cents"] <= 10:
            return Allowed(message="small sums are fine")
        return Denied(message="too much", reason="policy")

    agent = clerk([call("pay", cents=5), call("pay", cents=500)], "done", hooks=[guard("permission", small)])
    result, events = await run_once(agent)
    assert (result.status, result.text) == ("completed", "done")
    asked = only(events, PermissionRequested)
    yes, no = only(events, PermissionApproved)[0], only(events, PermissionDenied)[0]
    assert (yes.actor, yes.request_id, yes.digest) == ("hook:permission:g", asked[0].request_id, asked[0].digest)
    assert (no.actor, no.request_id, no.body.feedback, no.stop) == (
        "hook:permission:g",
        asked[1].request_id,
        "too much",
        False,
    )
    assert [event.call_id for event in only(events, ToolFinished)] == [asked[0].call_id]
    assert [(m.tool, m.value["request_id"]) for m in seen] == [("pay", event.request_id) for event in asked]


async def test_a_guard_that_has_nothing_to_say_leaves_it_to_people():
    asked: list[str] = []

    async def approver(ask: Any) -> bool:
        asked.append(ask.request_id)
        return True

    hooks = [guard("permission", lambda m: None), guard("permission", lambda m: True, "also")]
    result, events = await run_once(clerk(call("pay", cents=5), "done", hooks=hooks, approver=approver))
    assert (result.text, len(asked)) == ("done", 1)
    assert [event.actor for event in only(events, PermissionApproved)] == ["approver"]
    result, events = await run_once(clerk(call("pay", cents=5), hooks=hooks))
    assert (result.status, len(only(events, ApproverMissed))) == ("asked", 1)


async def test_one_no_beats_any_yes_and_a_guard_that_breaks_says_no():
    def broken(moment: Moment) -> Any:
        raise RuntimeError("the rule book is gone")

    for last, feedback in (
        (lambda m: False, "denied by permission:last"),
        (broken, "RuntimeError: the rule book is gone"),
    ):
        hooks = [guard("permission", lambda m: Allowed(), "first"), guard("permission", last, "last")]
        _, events = await run_once(clerk(call("pay", cents=5), "done", hooks=hooks))
        assert [event.body.feedback for event in only(events, PermissionDenied)] == [feedback]
        assert only(events, PermissionApproved) == []


async def test_a_fatal_denial_of_a_permission_stops_the_run():
    hook = guard("permission", lambda m: Denied(message="never", fatal=True))
    result, events = await run_once(clerk(call("pay", cents=5), "done", hooks=[hook]))
    assert (result.status, only(events, PermissionDenied)[0].stop) == ("interrupted", True)


async def test_observers_of_permissions_hear_of_each_once():
    seen: list[str] = []

    def note(moment: Moment) -> None:
        seen.append(moment.value["request_id"])

    hooks = [Hook(point="permission", run=note), guard("permission", lambda m: Allowed())]
    _, events = await run_once(clerk(call("pay", cents=5), "done", hooks=hooks))
    assert seen == [event.request_id for event in only(events, PermissionRequested)]


async def test_observers_of_permissions_hear_of_their_tool_alone():
    seen: list[Any] = []

    def note(moment: Moment) -> None:
        seen.append((moment.tool, moment.call_id))

    hooks = [
        Hook(point="permission", run=note, tool="pay"),
        Hook(point="permission", run=note, tool="other*"),
        guard("permission", lambda m: Allowed()),
    ]
    _, events = await run_once(clerk(call("pay", cents=5), "done", hooks=hooks))
    assert seen == [("pay", event.call_id) for event in only(events, PermissionRequested)]


async def test_a_guard_for_another_tool_is_not_asked():
    hook = guard("permission", lambda m: False, tool="other*")
    result, events = await run_once(clerk(call("pay", cents=5), hooks=[hook]))
    assert (result.status, only(events, PermissionDenied)) == ("asked", [])


@pytest.mark.parametrize(("answer", "status"), [('{"decision":"allow"}', "completed"), ("{}", "asked"), ("", "asked")])
async def test_an_external_program_allows_only_by_saying_so(answer, status):
    hook = guard("permission", CommandHook(sys.executable, "-c", f"print({answer!r})"), timeout_ms=20_000)
    result, _ = await run_once(clerk(call("pay", cents=5), "done", hooks=[hook]))
    assert result.status == status


# --- what guards say, and what they are asked about ---


@pytest.mark.parametrize("said", ["no", {"decision": "deny"}, 0, Changed(value={"cents": 1})])
async def test_a_guard_that_says_what_nobody_understands_denies(said):
    hook = guard("before_tool", lambda m: said)
    _, events = await run_once(clerk(call("pay", cents=5), "done", hooks=[hook], policy=windlass.ALLOW_ALL))
    assert rulings(events) == [("before_tool:g", "failed")]
    assert [event.reason for event in only(events, ToolDenied)] == ["hook"]


async def test_observers_alone_hear_of_calls_too():
    seen: list[Any] = []

    def note(moment: Moment) -> None:
        seen.append((moment.tool, moment.value))

    hook = Hook(point="before_tool", run=note)
    result, _ = await run_once(clerk(call("pay", cents=5), "done", hooks=[hook], policy=windlass.ALLOW_ALL))
    assert (result.text, seen) == ("done", [("pay", {"cents": 5})])


async def test_a_persons_own_call_passes_the_same_guards():
    hook = guard("before_tool", lambda m: Denied(message="not even you"))
    agent = clerk(hooks=[hook], policy=windlass.ALLOW_ALL)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.call_tool("pay", cents=5)
        await session.wait_idle()
        events = await events_of(session)
        assert [(event.reason, event.detail) for event in only(events, ToolDenied)] == [("hook", "not even you")]
        assert only(events, ToolFinished) == []


# --- hooks of single runs ---


async def test_hooks_of_a_prompt_hold_for_its_run_alone_and_what_they_ruled_is_in_the_log():
    agent = clerk([call("pay", cents=5)], "one", [call("pay", cents=6)], "two", policy=windlass.ALLOW_ALL)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go", hooks=[guard("before_tool", lambda m: False)])
        assert (await session.result()).text == "one"
        await session.prompt("go")
        assert (await session.result()).text == "two"
        events = await events_of(session)
        assert rulings(events) == [("before_tool:g", "denied")]
        assert [event.body.content[0].text for event in only(events, ToolFinished)] == ["paid 6"]


async def test_hooks_of_a_run_follow_the_agents_own_and_see_its_prompt_its_start_and_its_end():
    seen: list[str] = []

    def noting(name: str, **more: Any) -> Hook:
        def note(moment: Moment) -> None:
            seen.append(name)

        return Hook(point=more.pop("point", "prompt"), run=note, name=name, **more)

    agent = clerk("x", hooks=[noting("agent's", kind="guard")])
    brought = [noting("brought", kind="guard"), noting("start", point="run_start"), noting("end", point="run_end")]
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        async for _ in session.prompt("go", hooks=brought):
            pass
        assert rulings(await events_of(session)) == [("prompt:agent's", "allowed"), ("prompt:brought", "allowed")]
    assert seen == ["agent's", "brought", "start", "end"]


async def test_a_prompt_that_waits_keeps_its_hooks_until_its_run():
    agent = clerk(call("pay", cents=1), "first", call("pay", cents=2), "second")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (asked,) = await session.requests()
        hook = guard("before_tool", lambda m: Denied(message="not in this run"))
        following = session.prompt("then", behavior="follow_up", hooks=[hook])
        await following
        await session.approve(asked)
        assert [type(e).__name__ async for e in session.prompt("then", command_id=following.command_id)][-1] == (
            "RunCompleted"
        )
        events = await events_of(session)
        assert [event.body.content[0].text for event in only(events, ToolFinished)] == ["paid 1"]
        assert [event.detail for event in only(events, ToolDenied)] == ["not in this run"]


async def test_a_run_that_goes_on_after_an_approval_has_its_hooks_still():
    hook = guard("before_tool", lambda m: Denied(message="no second payment") if m.value["cents"] == 2 else None)
    agent = clerk(call("pay", cents=1), call("pay", cents=2), "done")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go", hooks=[hook])
        await session.result()
        (asked,) = await session.requests()
        await session.approve(asked)
        assert (await session.result()).text == "done"
        events = await events_of(session)
        assert [event.body.content[0].text for event in only(events, ToolFinished)] == ["paid 1"]
        assert [event.detail for event in only(events, ToolDenied)] == ["no second payment"]
        await session.prompt("next", hooks=[hook])
        assert len(rt.slots.at(session.key).local_code.hooks) == 1, "those of the run that is over are forgotten"


async def test_an_agents_run_may_bring_hooks():
    hook = guard("before_tool", lambda m: False)
    agent = clerk(call("pay", cents=5), "denied", call("pay", cents=5), "paid", policy=windlass.ALLOW_ALL)
    kinds = [type(event).__name__ async for event in agent.stream("go", hooks=[hook])]
    assert ("ToolDenied" in kinds, "ToolFinished" in kinds) == (True, False)
    kinds = [type(event).__name__ async for event in agent.stream("go")]
    assert ("ToolDenied" in kinds, "ToolFinished" in kinds) == (False, True)


async def test_hooks_cannot_be_given_to_a_run_that_another_process_drives(tmp_path):
    store = str(tmp_path / "work.db")
    agent = clerk("x")
    async with windlass.open(store, agents=[agent]) as rt:
        await rt.session(agent, "s")
        async with windlass.open(store) as other:
            session = await other.get("s")
            with pytest.raises(windlass.UsageError, match="give hooks to the agent"):
                await session.prompt("go", hooks=[guard("prompt", lambda m: False)])


async def test_prompts_with_hooks_have_a_bound(monkeypatch):
    monkeypatch.setattr("windlass.runtime.bind.local_code.HOOKED_RUNS_MAX", 2)
    assert HOOKED_RUNS_MAX > 2
    agent = clerk(call("pay", cents=1))
    hook = guard("before_tool", lambda m: None)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("a", hooks=[hook])
        await session.result()
        await session.prompt("b", hooks=[hook], behavior="follow_up")
        with pytest.raises(windlass.Refused, match="hooks of their own wait already"):
            await session.prompt("c", hooks=[hook], behavior="follow_up")


# --- credentials ---


def model_at(server: ModelServer, credential: Any) -> WireModel:
    endpoint = msgspec.structs.replace(ENDPOINTS["openai"], base_url=server.url("openai"))
    info = ModelInfo(name="openai/m", provider="openai", model="m")
    return WireModel(endpoint, "m", credential=credential, info=info)


async def test_a_hook_learns_the_name_of_the_credential_and_never_its_value():
    seen: list[Moment] = []
    hooks = [Hook(point="credential", run=seen.append, name="o"), guard("credential", lambda m: None)]
    async with ModelServer(["hello"]) as server:
        endpoint = msgspec.structs.replace(ENDPOINTS["openai"], base_url=server.url("openai"))
        credential = from_environment(endpoint, environ={"OPENAI_API_KEY": SECRET})
        model = model_at(server, credential)
        agent = windlass.Agent("a", model=model, hooks=hooks)
        async with windlass.open(agents=[agent]) as rt:
            session = await rt.session(agent, "s")
            await session.prompt("go")
            assert (await session.result()).text == "hello"
            events = await events_of(session)
        await model.close()
        origin = server.url("openai").split("/")
    value = {
        "endpoint": "openai",
        "origin": f"{origin[0]}//{origin[2]}",
        "model": "m",
        "name": "environment variable OPENAI_API_KEY",
    }
    assert [(m.point, m.value) for m in seen] == [("credential", value)]
    assert rulings(events) == [("credential:g", "allowed")]
    assert SECRET not in str(seen) + str(events)


async def test_a_denied_credential_is_never_sent_and_the_log_says_who_denied_it():
    hook = guard("credential", lambda m: Denied(message="not with this key", reason="safety"))
    async with ModelServer(["hello"]) as server:
        model = model_at(server, SECRET)
        agent = windlass.Agent("a", model=model, hooks=[hook])
        async with windlass.open(agents=[agent]) as rt:
            session = await rt.session(agent, "s")
            await session.prompt("go")
            result = await session.result()
            events = await events_of(session)
        assert (result.status, result.stop) == ("failed", "hook_denied")
        assert list(server.requests) == []
        await model.close()
    (failed,) = only(events, ModelFailed)
    assert (failed.failure.kind, failed.failure.message) == ("hook_denied", "not with this key")
    assert [(r.hook_id, r.outcome, r.reason) for r in failed.hooks] == [("credential:g", "denied", "safety")]
    assert rulings(events) == [("credential:g", "denied")]


class Keyring:
    def get_password(self, service: str, user: str) -> str:
        return SECRET


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda e, place: from_value(e, SECRET), "a value given in code"),
        (lambda e, place: SECRET, "a value given in code"),
        (lambda e, place: lambda: SECRET, "a function"),
        (lambda e, place: from_callable(e, lambda: SECRET), "a function"),
        (lambda e, place: from_file(e, place), "file {place!r}"),
        (lambda e, place: from_keyring(e, backend=Keyring()), "keyring entry 'windlass' / 'openai'"),
        (lambda e, place: from_environment(e, "A", "B", environ={"B": SECRET}), "environment variable B"),
        (lambda e, place: from_environment(e, "A", "B", environ={}), "environment variable A or B"),
        (
            lambda e, place: from_oauth(e, token_url="https://auth.invalid/t", client_id="c", refresh_token=SECRET),
            "an OAuth sign-in",
        ),
    ],
)
async def test_each_source_has_a_name(tmp_path, make, name):
    place = str(tmp_path / "key")
    uses: list[Any] = []

    async def refuse(use: Any) -> Any:
        uses.append(use)
        return failure("hook_denied", "no")

    endpoint = ENDPOINTS["openai"]
    info = ModelInfo(name="openai/m", provider="openai", model="m")
    model = WireModel(endpoint, "m", credential=make(endpoint, place), info=info)
    told = [piece async for piece in model.stream(Request(model="m", credential_guard=refuse))]
    assert [(type(piece).__name__, getattr(piece, "kind", "")) for piece in told] == [("Failure", "hook_denied")]
    assert [use.name for use in uses] == [name.format(place=place)]
    await model.close()
