"""What people are asked and what they say: permissions of every kind, denials of every reason, questions, forms,
plans."""

from __future__ import annotations

from typing import Any

import windlass
from windlass.events.changes import ChangeGrants
from windlass.events.questions import Answer, AnswerBody, Option, Question, QuestionBody, QuestionRequested
from windlass.events.tools.permissions import McpDetail, MemoryDetail, PermissionRequested, UrlDetail, WriteDetail
from windlass.events.values.blocks import FileAttachment
from windlass.events.values.policy import Grant
from windlass.testing.scripted import call, call_malformed, turn
from windlass.tools.description import Description

from .stage import QUICK, Stage, priced, scripted


@windlass.tool
def pay(invoice: str, cents: int) -> str:
    "Pay an invoice."
    return f"paid {invoice}"


def write_description(args: dict[str, Any], place: Any) -> Description:
    detail = WriteDetail(
        path=args["path"],
        intention="add a note",
        diff="+ a note",
        new_content=args["text"],
        session_approval_offered=False,
    )
    return Description(subject=args["path"], detail=detail)


@windlass.tool(kind="write", traits=("write",), describe=write_description)
def write(path: str, text: str) -> str:
    "Write a file."
    return "written"


@windlass.tool(
    kind="url",
    traits=("egress",),
    describe=lambda args, place: Description(detail=UrlDetail(url=args["url"], intention="read the news")),
)
def fetch(url: str) -> str:
    "Fetch a page."
    return "news"


def server_description(args: dict[str, Any], place: Any) -> Description:
    detail = McpDetail(server="tickets", tool="show", title="Show a ticket", args=args, read_only=True)
    return Description(subject=f"tickets.show {args['ticket']}", detail=detail)


@windlass.tool(kind="mcp", traits=("egress",), describe=server_description)
def show_ticket(ticket: str) -> str:
    "Show a ticket, by the server that keeps them."
    return f"{ticket}: open"


def memory_description(args: dict[str, Any], place: Any) -> Description:
    detail = MemoryDetail(subject=args["subject"], fact=args["fact"], citations="README.md:3")
    return Description(subject=args["subject"], detail=detail)


@windlass.tool(kind="memory", traits=("write",), describe=memory_description)
def remember(subject: str, fact: str) -> str:
    "Remember a fact beyond this session."
    return "remembered"


async def further_permissions(stage: Stage) -> None:
    """Requests of the kinds whose details only a tool's author knows: a server's tool, and a memory."""
    model = priced(
        [
            call("show_ticket", ticket="T-1"),
            call("remember", subject="tests", fact="they run with pytest -q"),
        ],
        "done",
    )
    policy = windlass.Policy(rules=[windlass.ask("*", reason="a person decides")])
    agent = windlass.Agent("clerk", model=model, tools=[show_ticket, remember], policy=policy, settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "further_permissions")
        await session.prompt("look it up and remember")
        await session.result()
        for each in await stage.until(session, PermissionRequested, 2):
            await session.approve(each.request_id, digest=each.digest, actor="ada")
        await session.result()


async def permissions(stage: Stage) -> None:
    """A request of each kind that a tool of one's own can have, approved in each scope and denied."""
    notes = stage.folder / "files"
    notes.mkdir()
    (notes / "a.txt").write_text("a note\n")
    model = priced(
        [
            call(
                "shell",
                command="find . -name '*.txt' > notes.txt; curl http://127.0.0.1:9/$PAGE",
                intention="look for the file",
            ),
            call("write", path="a.txt", text="a note"),
            call("fetch", url="https://example.com/"),
            call("read", path="a.txt"),
            call("pay", invoice="a", cents=5),
        ],
        [call("pay", invoice="a", cents=5), call("pay", invoice="b", cents=5)],
        call("fetch", url="https://example.com/"),
        "done",
        [call("pay", invoice="c", cents=5), call("write", path="b.txt", text="x")],
        call("write", path="b.txt", text="x"),
    )
    policy = windlass.Policy(rules=[windlass.ask("*", reason="a person decides")])
    tools = ["shell", write, fetch, pay, *windlass.file_tools(notes, ["read"])]
    agent = windlass.Agent("clerk", model=model, tools=tools, policy=policy, settings=QUICK)
    async with stage.open(agent, jobs=stage.folder / "jobs") as rt:
        session = await stage.session(rt, agent, "permissions", workspace=notes)
        await session.prompt("do it all")
        await session.result()
        asked = {each.tool: each for each in await stage.until(session, PermissionRequested, 5)}
        await session.approve(asked["shell"].request_id, digest=asked["shell"].digest, actor="ada")
        await session.approve(asked["fetch"].request_id, digest=asked["fetch"].digest, scope="session", actor="ada")
        await session.approve(asked["read"].request_id, digest=asked["read"].digest, pattern="a.*", actor="ada")
        await session.approve(asked["pay"].request_id, digest=asked["pay"].digest, actor="ada")
        await session.deny(asked["write"].request_id, "not that file", actor="bob")
        await session.result()
        for each in (await stage.until(session, PermissionRequested, 7))[-2:]:
            await session.deny(each.request_id, actor="bob")
        await session.result()
        await session.change(ChangeGrants(add=(Grant(grant_id="g1", tool="shell", by="ada"),)))
        await session.change(ChangeGrants(revoke=("g1",)))
        await session.prompt("once more")
        await session.result()
        await session.cancel("changed my mind")
        await session.prompt("and again")
        await session.result()
        last = (await stage.until(session, PermissionRequested, 10))[-1]
        await session.deny(last.request_id, "stop here", stop=True, actor="bob")
        await session.result()


@windlass.tool(describe=lambda args, place: Description(excluded="it is about a person's health"))
def file_of(name: str) -> str:
    "A patient's file."
    return "secret"


@windlass.tool(labels=("private",))
def wipe() -> str:
    "Wipe the disk."
    return "wiped"


@windlass.tool(contract="pure")
def look(name: str) -> str:
    "Look at something."
    return name


async def denials(stage: Stage) -> None:
    """Calls that never run, for every reason but a person's."""
    model = scripted(
        [
            call("wipe"),
            call_malformed("look", "{"),
            call("look", wrong=1),
            call("nowhere"),
            call("file_of", name="Ada"),
            call("look", name="a"),
        ],
        turn(call("look", name="cut"), call_malformed("look", '{"na'), finish="length"),
        *[call("look", name="same") for _ in range(9)],
    )
    policy = windlass.Policy(rules=[windlass.deny("wipe", reason="never")])
    agent = windlass.Agent(
        "worker", model=model, tools=[wipe, look, file_of], policy=policy,
        settings=windlass.Settings(calls_per_turn_max=5, repeat_warn=2, repeat_deny=3, repeat_stop=4),
    )  # fmt: skip
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "denials")
        await stage.said(session, "do it all")
    alone = windlass.Agent(
        "pilot",
        model=scripted(
            [call("pay", invoice="a", cents=5), call("ask_user", question="may I?")],
            "no more",
            "still nothing",
            "nothing",
            "nothing",
        ),
        tools=[pay, "ask_user", "complete_task"],
        policy=windlass.Policy(rules=[windlass.ask("pay")]),
        mode="autopilot",
        settings=QUICK,
    )
    async with stage.open(alone, store="alone") as rt:
        session = await stage.session(rt, alone, "denials_alone")
        await stage.said(session, "pay it")


def only_looking(asked: Any) -> windlass.Approve | windlass.Deny:
    "Somebody who lets things be looked at, and no more."
    return windlass.Approve(together=True) if asked.tool == "look" else windlass.Deny(together=True)


async def enough(stage: Stage) -> None:
    """Calls that are alike are asked about together; a quota is used up; after two denials nobody is asked any more."""
    model = scripted(
        [call("look", name="a"), call("look", name="b")],
        [call("pay", invoice="a", cents=1), call("pay", invoice="b", cents=2)],
        call("pay", invoice="c", cents=3),
        call("pay", invoice="d", cents=4),
        "I stop here.",
    )
    rules = [windlass.allow("look", quota=1, quota_per="run"), windlass.ask("pay", known_only=True, writes=["*.lock"])]
    agent = windlass.Agent(
        "worker",
        model=model,
        tools=[pay, look],
        policy=windlass.Policy(rules=rules, default="ask"),
        settings=windlass.Settings(denials_max=2),
        approver=only_looking,
    )
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "asked_enough")
        await stage.said(session, "pay them all")


async def excluded(stage: Stage) -> None:
    """Files that no model may see: named, through a link, in a walk, attached."""
    place = stage.folder / "files"
    (place / "secrets").mkdir(parents=True)
    (place / "secrets" / "key.txt").write_text("do not tell")
    (place / "link.txt").symlink_to("secrets/key.txt")
    model = scripted([call("read", path="secrets/key.txt"), call("grep", pattern="tell")], "done")
    agent = windlass.Agent(
        "reader",
        model=model,
        tools=windlass.file_tools(place),
        policy=windlass.Policy(exclude=["secrets/", "*.pem"]),
        settings=QUICK,
    )
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "excluded", workspace=place)
        await stage.said(session, "look")
        with stage.refused("attach a file that no model may see"):
            await session.prompt("and this", attachments=[FileAttachment(path=str(place / "link.txt"))])


async def questions(stage: Stage) -> None:
    """Plan mode, plans rejected and edited, choices, forms, a tool that asks, questions that are withdrawn."""
    form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    several = [
        {
            "question": "which?",
            "header": "Pick",
            "options": [{"label": "a", "description": "the first"}, {"label": "b"}],
            "multi_select": True,
            "free_text": False,
        }
    ]
    plan = {"summary": "s", "actions": ["approve", "reject", "later"], "recommended": "approve"}
    model = scripted(
        [call("plan", content="v1", **plan), call("pay", invoice="a", cents=1)],
        call("plan", content="v2", **plan),
        call("ask_user", questions=several, message="before I begin"),
        call("ask_user", message="who are you?", form=form),
        call("survey"),
        call("todo", todos=[{"todo_id": "1", "content": "write", "status": "in_progress"}]),
        call(
            "task", goal="g", criteria=["done"], current_step="writing", progress="half", scratchpad="x", blocked_on="y"
        ),
        call("plan", content="", summary="nothing left"),
        call("complete_task", summary="all done", success=True),
        call("ask_user", question="still there?", options=["yes", "no"]),
        call("ask_user", question="really?"),
        call("ask_user", question="and now?"),
        "fine",
    )

    @windlass.tool(contract="pure")
    async def survey(ctx: windlass.ToolContext) -> str:
        "Ask everybody."
        body = QuestionBody(
            message="a survey",
            url="https://example.com/form",
            questions=(Question(question="how?", options=(Option(label="so"),)),),
        )
        return (await ctx.ask(body)).text

    agent = windlass.Agent(
        "planner",
        model=model,
        tools=[pay, survey, "plan", "ask_user", "todo", "task", "complete_task"],
        mode="plan",
        settings=QUICK,
    )
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "questions")
        await session.prompt("plan it")
        await session.result()
        asked = await stage.until(session, QuestionRequested)
        await session.answer(asked[-1].question_id, AnswerBody(feedback="shorter"), action="reject", actor="ada")
        await session.result()
        asked = await stage.until(session, QuestionRequested, 2)
        await session.answer(
            asked[-1].question_id, AnswerBody(edited="v3"), action="approve", mode="interactive", actor="ada"
        )
        await session.result()
        asked = await stage.until(session, QuestionRequested, 3)
        await session.answer(asked[-1].question_id, AnswerBody(answers=(Answer(index=0, selected=("a", "b")),)))
        await session.result()
        asked = await stage.until(session, QuestionRequested, 4)
        await session.answer(asked[-1].question_id, {"name": "Ada"})
        asked = await stage.until(session, QuestionRequested, 5)
        await session.answer(asked[-1].question_id, "well")
        await session.result()
        await session.prompt("go on")
        await session.result()
        asked = await stage.until(session, QuestionRequested, 6)
        await session.answer(asked[-1].question_id, "", outcome="declined")
        await session.result()
        asked = await stage.until(session, QuestionRequested, 7)
        await session.answer(asked[-1].question_id, "", outcome="cancelled")
        await session.result()
        await session.interrupt("enough")
        await stage.said(session, "go on")


async def absent(stage: Stage) -> None:
    """An approver that fails, one that is not there, and prompts that come while a person is asked."""

    def broken(asked: Any) -> bool:
        raise RuntimeError("the pager is broken")

    model = scripted(call("pay", invoice="a", cents=1), "never mind", "done")
    agent = windlass.Agent(
        "clerk", model=model, tools=[pay], policy=windlass.Policy(rules=[windlass.ask("pay")]), approver=broken,
        settings=QUICK,
    )  # fmt: skip
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "absent")
        await session.prompt("pay it")
        await session.result()
        await session.prompt("forget it", behavior="steer")
        await session.result()


SCENARIOS = {
    "excluded": excluded,
    "permissions": permissions,
    "further_permissions": further_permissions,
    "denials": denials,
    "asked_enough": enough,
    "questions": questions,
    "absent": absent,
}
