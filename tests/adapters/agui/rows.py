"""How the routes of this adapter are attacked."""

from __future__ import annotations

from tests.server.attack_rows import Row

INPUT = {"threadId": "thread", "runId": "r", "messages": [{"id": "m1", "role": "user", "content": "Hi"}]}
ROWS: dict[str, Row] = {"aguiRunAgent": Row(body=INPUT, found=False)}
