"""A full-text index in memory: which pages hold which words, best first. Keeps no text; never touches a file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import apsw

QUERY_WORDS_MAX = 32
"""How many words of a query are looked at."""
WITHOUT_BLANKS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Scripts that put no blanks between words: each of their characters is a word here, and several of them a phrase."""
SPLIT = re.compile(f"([{WITHOUT_BLANKS}])")
WORD = re.compile(rf"[{WITHOUT_BLANKS}]+|[^\W{WITHOUT_BLANKS}]+")
COMMON = frozenset(
    WORD.findall(
        "a about an and are as at be but by can did do does for from had has have how i in is it its me my not of on "
        "or our say said so than that the their them then there they this to was we were what when where which who why "
        "will with you your"
    )
)
"""Words that stand in every page and say nothing about any; they count only where a query has no others."""
TABLE = (
    "create virtual table words using fts5(text, content='', contentless_delete=1,"
    " tokenize='porter unicode61 remove_diacritics 2')"
)


class Words:
    """Numbered texts by their words. Numbers rise; of two that fit equally well, the higher one comes first."""

    def __init__(self) -> None:
        import apsw

        self._db: apsw.Connection = apsw.Connection(":memory:")
        self._db.execute(TABLE)

    def add(self, texts: dict[int, str]) -> None:
        """Takes in texts, all of them or none."""
        rows = [(number, SPLIT.sub(r" \1 ", text)) for number, text in texts.items()]
        with self._db:
            self._db.executemany("insert into words(rowid, text) values (?, ?)", rows)

    def remove(self, numbers: list[int]) -> None:
        with self._db:
            self._db.executemany("delete from words where rowid = ?", [(number,) for number in numbers])

    def find(self, query: str, limit: int) -> list[int]:
        """The numbers of the texts that hold a word of the query, those that hold more and rarer ones first."""
        wanted = expression(query)
        if not wanted:
            return []
        rows = self._db.execute(
            "select rowid from words where words match ? order by rank, rowid desc limit ?", (wanted, limit)
        )
        return [int(row[0]) for row in rows]


def expression(query: str) -> str:
    """A query as the index understands it. Nothing of it is taken for an operator."""
    words = [word.lower() for word in WORD.findall(query)]
    telling = [word for word in words if word not in COMMON] or words
    kept = list(dict.fromkeys(telling))[:QUERY_WORDS_MAX]
    return " OR ".join('"' + " ".join(SPLIT.sub(r" \1 ", word).split()) + '"' for word in kept)
