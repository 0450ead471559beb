"""A language model provider on loopback, for tests: scripted, validating, faulty on request, recording.

    async with ModelServer(script=["hello", call("add", {"x": 1, "y": 2}), "done"]) as server:
        client = openai.AsyncOpenAI(base_url=server.url("openai"), api_key="any")

Public names:

- `ModelServer`: the server. `url(format, profile)` is a client's base address; `say(*turns)` adds answers;
  `inject(fault, times=…)` spoils the next requests; `requests` holds everything that arrived (`Recorded`: raw bytes,
  headers, connection, in-flight count, what was sent, whether the client left); `refusals` says why requests were
  refused; `arrived(n)` and `idle()` wait; `close_port()` and `open_port()` refuse and accept connections;
  `elsewhere` is the other host that redirects lead to; `prefix_violations()` checks the stable prefix.
- Answers: `say`, `call`, `calls`, `Answer` of the parts `Say`, `Think`, `Call`, `Decline`, `Picture`, `ServerCall`,
  with `Tokens`; a script may also hold plain strings, parts, lists of parts, dicts, and faults.
- Functions as scripts: `(ParsedRequest) -> Answer`; `by_turn([...])` for many conversations at once.
- Faults: `fault(name, **changes)`, `FAULTS` (all by name), `Fault`, `FaultPlan(seed=…)`; `closed_port()` for a refused
  connection.
- `PROFILES`: endpoints that demand more than their format, selected by `url(format, profile=…)` or the constructor.
- `why_refused(format, body)`: the vendor's reason for refusing a body, or None; no server needed. `refusal(…)` is the
  whole refusal; its `rule` is an id of `RULES`, and `cites(rule)` says what that rule rests on.
- `seal(text, kind)`: the signature that the server puts on reasoning and expects back.
- Headers a client may send: `x-windlass-script` names a queue of answers, `x-windlass-lane` a stream of requests.

The four formats are `anthropic`, `openai` (Chat Completions), `responses` and `gemini`.
As a command: `python -m windlass.testing.server --port 0` prints its address.
"""

from __future__ import annotations

from windlass.testing.model_server.faults.fault import FAULTS, Fault, FaultPlan, fault
from windlass.testing.model_server.rules.citation_kinds import Rule
from windlass.testing.model_server.rules.cited_rules import RULES, cites
from windlass.testing.model_server.rules.profiles import PROFILES, Profile
from windlass.testing.model_server.rules.verdict import refusal, why_refused
from windlass.testing.model_server.wires.parsed import (
    FORMATS,
    LANE_HEADER,
    QUEUE_HEADER,
    Format,
    ParsedCall,
    ParsedMessage,
    ParsedRequest,
    ParsedResult,
    Recorded,
)
from windlass.testing.model_server.wires.wire import WireRefused

from .answers import Answer, Call, Decline, Part, Picture, Say, ServerCall, Think, Tokens, Turn, call, calls, say, seal
from .ports import closed_port
from .prefixes import PrefixViolation, prefix_violations
from .script import by_turn
from .server import ModelServer

__all__ = [
    "FAULTS",
    "FORMATS",
    "LANE_HEADER",
    "PROFILES",
    "QUEUE_HEADER",
    "RULES",
    "Answer",
    "Call",
    "Decline",
    "Fault",
    "FaultPlan",
    "Format",
    "ModelServer",
    "ParsedCall",
    "ParsedMessage",
    "ParsedRequest",
    "ParsedResult",
    "Part",
    "Picture",
    "PrefixViolation",
    "Profile",
    "Recorded",
    "Rule",
    "Say",
    "ServerCall",
    "Think",
    "Tokens",
    "Turn",
    "WireRefused",
    "by_turn",
    "call",
    "calls",
    "cites",
    "closed_port",
    "fault",
    "prefix_violations",
    "refusal",
    "say",
    "seal",
    "why_refused",
]
