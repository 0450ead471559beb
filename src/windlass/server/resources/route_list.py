"""The closed list of routes. A route that is not here is not served, and one that is has its row in the document, its
role and its attacks."""

from __future__ import annotations

from windlass.server.route import Route, Routes

from . import blobs, host, operator_verbs, requests, sessions, slash_commands, store

ROUTES: tuple[Route, ...] = (
    *host.ROUTES,
    *sessions.ROUTES,
    *requests.ROUTES,
    *slash_commands.ROUTES,
    *operator_verbs.ROUTES,
    *blobs.ROUTES,
    *store.ROUTES,
)

TABLE = Routes(ROUTES)
