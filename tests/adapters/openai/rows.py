"""How the routes of this adapter are attacked."""

from __future__ import annotations

from tests.server.attack_rows import Row

ROWS: dict[str, Row] = {
    "openaiListModels": Row(found=False),
    "openaiGetModel": Row(found=False),
    "openaiCreateResponse": Row(body={"model": "clerk", "input": "Hi"}, found=False),
    "openaiCreateChat": Row(body={"model": "clerk", "messages": [{"role": "user", "content": "Hi"}]}, found=False),
    "openaiGetResponse": Row(),
}
