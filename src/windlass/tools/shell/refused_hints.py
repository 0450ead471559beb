"""What a model is told of a command that failed and looks as if its sandbox was why: what holds it, and how to ask."""

from __future__ import annotations

import re

from windlass.tools.sandboxes.sandbox import Access, Capabilities

NO_NETWORK = re.compile(
    r"could not resolve|couldn't resolve|name resolution|name or service not known|unknown host|network is unreachable|"
    r"no address associated|ENOTFOUND|EAI_AGAIN|ENETUNREACH|failed to resolve|getaddrinfo|dns error|"
    r"nobody granted this host|create a socket|connection refused|ECONNREFUSED",
    re.IGNORECASE,
)
NO_WRITING = re.compile(r"read-only file system|EROFS|permission denied|EACCES|operation not permitted", re.IGNORECASE)
SEEN_CHARS_MAX = 64_000


def refusal_hint(printed: str, holds: Capabilities, access: Access | None) -> str:
    """A line for the model; empty if nothing speaks for it."""
    shown = printed[-SEEN_CHARS_MAX:]
    if holds.confines_network and NO_NETWORK.search(shown):
        if not holds.gives_hosts:
            return f"\n[this ran in the sandbox {holds.name!r}, which reaches nobody and can open no host]"
        given = f" beside {', '.join(access.hosts)}" if access is not None and access.hosts else ""
        asks = "call again with reach_hosts=[...] if it needs a host: somebody may be asked"
        return f"\n[this ran in the sandbox {holds.name!r}, which reaches nobody{given}: {asks}]"
    if holds.confines_files and NO_WRITING.search(shown):
        hosts = "reach_hosts=[...], " if holds.confines_network and holds.gives_hosts else ""
        asks = f"call again with {hosts}write_paths=[...] or read_paths=[...] if it needs more: somebody may be asked"
        return f"\n[this ran in the sandbox {holds.name!r}, which writes only its folder and reaches nobody: {asks}]"
    return ""
