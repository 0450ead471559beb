"""Which wire format and which profile a path means."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from windlass.testing.model_server.wires.parsed import Format

Purpose = Literal["generate", "count", "models"]

PROFILE_PATH = re.compile(r"^/p/(?P<profile>[a-z0-9_-]+)(?P<rest>/.*)$")
GEMINI_PATH = re.compile(r"/models/(?P<model>[^/:]+):(?P<verb>generateContent|streamGenerateContent|countTokens)$")
DEPLOYMENT_PATH = re.compile(r"/deployments/(?P<model>[^/]+)/")

ENDINGS: tuple[tuple[str, Format, Purpose], ...] = (
    ("/messages/count_tokens", "anthropic", "count"),
    ("/messages", "anthropic", "generate"),
    ("/chat/completions", "openai", "generate"),
    ("/responses", "responses", "generate"),
    ("/models", "openai", "models"),
    ("/api/tags", "openai", "models"),
)

ROOTS: dict[Format, str] = {"anthropic": "", "openai": "/v1", "responses": "/v1", "gemini": ""}
"""What a base address of each format ends with, as the vendors' own clients expect it."""

EXACT = frozenset(
    {"/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions", "/v1/responses", "/v1/models", "/api/tags"}
)
"""The paths that are served without a profile; profiles may stand under any prefix."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """Where a path leads. `model` and `stream` are set where the path itself says them."""

    format: Format
    purpose: Purpose
    profile: str = ""
    model: str | None = None
    stream: bool | None = None


def route_of(path: str, *, anywhere: bool = False) -> Route | None:
    """The route of a path, or None when nothing is served there. `anywhere` lets a prefix stand before the ending."""
    match = PROFILE_PATH.match(path)
    profile = ""
    if match is not None:
        profile, path, anywhere = match["profile"], match["rest"], True
    gemini = GEMINI_PATH.search(path)
    if gemini is not None and (anywhere or path.startswith(("/v1beta/models/", "/v1/models/"))):
        purpose: Purpose = "count" if gemini["verb"] == "countTokens" else "generate"
        stream = gemini["verb"] == "streamGenerateContent"
        return Route(format="gemini", purpose=purpose, profile=profile, model=gemini["model"], stream=stream)
    if path == "/v1beta/models":
        return Route(format="gemini", purpose="models", profile=profile)
    if not anywhere and path not in EXACT:
        return None
    for ending, wire, purpose in ENDINGS:
        if path.endswith(ending):
            deployment = DEPLOYMENT_PATH.search(path)
            model = deployment["model"] if deployment else None
            return Route(format=wire, purpose=purpose, profile=profile, model=model)
    return None
