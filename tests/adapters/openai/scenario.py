"""The published `openai` client, unchanged: run as a program beside a server that is killed in between. Prints a JSON
object for each check, and reads the address of the next server from standard input when it has asked for a kill."""

from __future__ import annotations

import json
import sys
from typing import Any

import openai

TOOLS: Any = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]


def show(value: Any) -> None:
    print(json.dumps(value), flush=True)


def same(name: str, found: Any, wanted: Any) -> None:
    show({"check": name, "ok": found == wanted, "found": repr(found), "wanted": repr(wanted)})


def restarted(token: str) -> openai.OpenAI:
    show({"kill": True})
    return client_of(sys.stdin.readline().strip(), token)


def client_of(url: str, token: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=token, max_retries=0, timeout=200)


def main(url: str, token: str) -> None:
    client = client_of(url, token)
    messages: list[Any] = [{"role": "user", "content": "Pay the invoice."}]

    def said(content: str | None = None) -> Any:
        if content is not None:
            call = messages[-1]["tool_calls"][0]["id"]
            messages.append({"role": "tool", "tool_call_id": call, "content": content})
        made = client.chat.completions.create(model="teller", messages=messages, tools=TOOLS)
        messages.append(made.choices[0].message.model_dump(exclude_none=True))
        return messages[-1]

    same("a function of the client's is called", said()["tool_calls"][0]["function"]["name"], "look_up")
    client = restarted(token)
    same("its result is taken behind kill -9", said("ours")["tool_calls"][0]["function"]["name"], "request_approval")
    client = restarted(token)
    same("an approval too", said('{"approved": true}')["content"], "It is so: paid 3.")
    again = client.chat.completions.create(model="teller", messages=messages[:-1], tools=TOOLS)
    same("the same request is answered again", again.choices[0].message.content, "It is so: paid 3.")
    messages.append({"role": "user", "content": "Thanks."})
    same("the conversation goes on", said()["content"], "heard Thanks.")

    asked = client.responses.create(model="teller", input="Pay it.")
    (request,) = [one for one in asked.output if one.type == "mcp_approval_request"]
    client = restarted(token)
    yes: Any = [{"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}]
    paid = client.responses.create(model="teller", previous_response_id=asked.id, input=yes)
    same("a response is approved behind kill -9", paid.output_text, "It is so: paid 3.")
    client = restarted(token)
    same("and read again behind another", client.responses.retrieve(paid.id).output_text, "It is so: paid 3.")


if __name__ == "__main__":
    main(*sys.argv[1:3])
