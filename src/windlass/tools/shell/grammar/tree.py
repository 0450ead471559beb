"""The grammar of bash, loaded on first use: a text in, its tree out."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node

NOT_ASCII = re.compile(r"[^\x00-\x7f]")
STAND_IN = "%"


@lru_cache(maxsize=1)
def _language() -> Language:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Language(tree_sitter_bash.language())


def tree_of(text: str) -> Node:
    """The root of a text's tree, with one byte for each character.

    The grammar's scanner looks letters up in a table that ends behind ASCII: a brace before a rarer letter reads beyond
    it and may end the process. So it is given a sign without meaning for each of them. A parser is made for each call,
    since one may not be shared between threads.
    """
    import tree_sitter

    plain = text if text.isascii() else NOT_ASCII.sub(STAND_IN, text)
    return tree_sitter.Parser(_language()).parse(plain.encode("ascii")).root_node
