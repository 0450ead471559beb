"""The closed list of routes. A route that is not here is not served, and one that is has its row in the document, its
role and its attacks."""

from __future__ import annotations

from . import blob_routes, host_routes, operator_routes, request_routes, session_routes
from .route import Route, Routes

ROUTES: tuple[Route, ...] = (
    *host_routes.ROUTES,
    *session_routes.ROUTES,
    *request_routes.ROUTES,
    *operator_routes.ROUTES,
    *blob_routes.ROUTES,
)

TABLE = Routes(ROUTES)
