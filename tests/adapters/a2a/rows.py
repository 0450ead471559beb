"""How the routes of this adapter are attacked."""

from __future__ import annotations

from tests.server.attack_rows import Row

MESSAGE = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "Hi"}]}
ROWS: dict[str, Row] = {
    "a2aGetCard": Row(found=False),
    "a2aAskAgent": Row(
        body={"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": MESSAGE}}, found=False
    ),
}
