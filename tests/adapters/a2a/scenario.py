"""The published `a2a-sdk`, unchanged: run as a program beside a server that is killed in between. Prints a JSON object
for each check, and reads the address of the next server from standard input when it has asked for a kill."""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from typing import Any

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as a2a
from a2a.utils.errors import A2AError, TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError
from google.protobuf.json_format import MessageToDict, ParseDict  # type: ignore[import-untyped]

State = a2a.TaskState


def show(value: Any) -> None:
    print(json.dumps(value), flush=True)


def same(name: str, found: Any, wanted: Any) -> None:
    show({"check": name, "ok": found == wanted, "found": repr(found), "wanted": repr(wanted)})


def message(*parts: Any, **more: str) -> a2a.SendMessageRequest:
    said = [{"text": part} if isinstance(part, str) else {"data": part} for part in parts]
    body = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": said, **more}
    return a2a.SendMessageRequest(message=ParseDict(body, a2a.Message()))


class Talk:
    """A client of one server."""

    def __init__(self, url: str, token: str, *, streaming: bool) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._http = httpx.AsyncClient(headers=headers, timeout=200)
        self._url, self._streaming = f"{url}/v1/a2a/teller", streaming
        self.client: Any = None

    async def open(self) -> a2a.AgentCard:
        card = await A2ACardResolver(self._http, self._url).get_agent_card()
        self.client = ClientFactory(ClientConfig(streaming=self._streaming, httpx_client=self._http)).create(card)
        return card

    async def told(self, request: a2a.SendMessageRequest) -> list[a2a.StreamResponse]:
        return [event async for event in self.client.send_message(request)]


def state(event: a2a.StreamResponse) -> Any:
    return event.task.status.state if event.HasField("task") else event.status_update.status.state


async def main(url: str, token: str) -> None:
    talk = Talk(url, token, streaming=True)
    card = await talk.open()
    same("the card names the agent and its skill", (card.name, card.skills[0].id), ("teller", "teller"))
    same("the card says how it is asked", card.supported_interfaces[0].protocol_binding, "JSONRPC")

    events = await talk.told(message("Pay the invoice."))
    task = events[0].task
    same("a stream begins with the task", events[0].HasField("task"), True)
    same("it ends asking", state(events[-1]), State.TASK_STATE_INPUT_REQUIRED)
    asking = MessageToDict(events[-1].status_update.status.message)["parts"]
    request = asking[1]["data"]
    same("what is asked is told in words", "pay" in asking[0]["text"], True)
    same("and as data", (request["kind"], request["detail"]["args"]), ("permission", {"amount": 3}))

    show({"kill": True})
    url = sys.stdin.readline().strip()
    talk = Talk(url, token, streaming=True)
    await talk.open()
    kept = await talk.client.get_task(a2a.GetTaskRequest(id=task.id))
    same("the task is there behind kill -9", kept.status.state, State.TASK_STATE_INPUT_REQUIRED)
    same("it asks the same", MessageToDict(kept.status.message)["parts"], asking)
    same("its history begins with what was said", kept.history[0].parts[0].text, "Pay the invoice.")
    yes = message({"request": request["request"], "approved": True}, taskId=task.id, contextId=task.context_id)
    events = await talk.told(yes)
    same("it comes to its end", state(events[-1]), State.TASK_STATE_COMPLETED)
    results = [event.artifact_update.artifact for event in events if event.HasField("artifact_update")]
    same("its result is an artifact", [one.parts[0].text for one in results], ["It is so: paid 3."])
    again = await talk.told(yes)
    same("a message that is sent twice is taken once", (len(again), again[0].task.id), (1, task.id))
    kept = await talk.client.get_task(a2a.GetTaskRequest(id=task.id, history_length=1))
    same("the result is kept", kept.artifacts[0].parts[0].text, "It is so: paid 3.")
    same("as much history as was asked for", len(kept.history), 1)

    try:
        await talk.told(message("And more.", taskId=task.id))
        same("a task that is over takes nothing", "taken", "refused")
    except UnsupportedOperationError as error:
        same("a task that is over takes nothing", "is over" in str(error), True)
    try:
        await talk.client.get_task(a2a.GetTaskRequest(id="nowhere.1"))
        same("a task that is not there is not found", "found", "not found")
    except TaskNotFoundError:
        same("a task that is not there is not found", True, True)

    talk = Talk(url, token, streaming=False)
    await talk.open()
    (asked,) = await talk.told(message("Ask me.", contextId=task.context_id))
    same("a question without a stream", asked.task.status.state, State.TASK_STATE_INPUT_REQUIRED)
    same("in the same context", asked.task.context_id, task.context_id)
    (heard,) = await talk.told(message("blue", taskId=asked.task.id))
    same("its answer is a text", heard.task.artifacts[0].parts[0].text, "ask_user gave blue")
    listed = await talk.client.list_tasks(a2a.ListTasksRequest(context_id=task.context_id))
    same("tasks of a context", [one.id for one in listed.tasks], [heard.task.id, task.id])

    (asked,) = await talk.told(message("Pay it again."))
    same("a message without a context begins one", asked.task.context_id == task.context_id, False)
    gone = await talk.client.cancel_task(a2a.CancelTaskRequest(id=asked.task.id))
    same("a task is cancelled", gone.status.state, State.TASK_STATE_CANCELED)
    try:
        await talk.client.cancel_task(a2a.CancelTaskRequest(id=asked.task.id))
        same("only once", "cancelled", "refused")
    except TaskNotCancelableError:
        same("only once", True, True)
    (failed,) = await talk.told(message("Fail."))
    same("a failure is told", failed.task.status.state, State.TASK_STATE_FAILED)
    try:
        await talk.client.list_tasks(a2a.ListTasksRequest())
        same("what there is not is refused", "taken", "refused")
    except A2AError as error:
        same("what there is not is refused", "contextId" in str(error), True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
