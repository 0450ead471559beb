"""What went wrong, as clients of OpenAI's read it."""

from __future__ import annotations

import msgspec

from windlass.server.problems import ProblemBody

SERVER = 500


def error_form(problem: ProblemBody) -> bytes:
    """An error object."""
    kind = "server_error" if problem.status >= SERVER else "invalid_request_error"
    param = problem.path.removeprefix("$.") or None
    error = {"message": problem.detail, "type": kind, "param": param, "code": problem.code}
    return msgspec.json.encode({"error": error})
