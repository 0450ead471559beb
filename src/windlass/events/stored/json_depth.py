"""How deep JSON may be nested: the same for every version of Python, and never as deep as its stack goes."""

from __future__ import annotations

import re

NESTING_MAX = 500
"""Levels of arrays and objects in one event or command."""
SIGNS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)


def is_too_deep(data: bytes) -> bool:
    """Whether JSON is nested deeper than anything that is kept. Of what is no JSON it may say either."""
    if len(data) <= 2 * NESTING_MAX or data.count(b"[") + data.count(b"{") <= NESTING_MAX:
        return False
    depth = 0
    for sign in SIGNS.finditer(data):
        if sign[0] in b"[{":
            depth += 1
            if depth > NESTING_MAX:
                return True
        elif sign[0] in b"]}":
            depth -= 1
    return False
