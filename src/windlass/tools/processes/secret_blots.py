"""Known secrets blotted out of what a process prints, as it comes. It imports nothing: see `process_tree`."""

from __future__ import annotations

HEAD_BYTES = 4
"""By how many bytes the beginning of a form is looked up."""


class Blots:
    """Puts as many asterisks for each of the forms, wherever what comes was cut: what may be the beginning of one is
    held back until it is clear."""

    def __init__(self, forms: list[bytes]) -> None:
        self._forms = sorted(filter(None, set(forms)), key=len, reverse=True)
        self._longest = len(self._forms[0]) if self._forms else 0
        self._heads = {form[:size] for form in self._forms for size in range(1, HEAD_BYTES + 1)}
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """What can be written now."""
        if not self._forms:
            return data
        data = self._held + data
        for form in self._forms:
            if form in data:
                data = data.replace(form, b"*" * len(form))
        cut = self._begun_at(data)
        self._held = data[cut:]
        return data[:cut]

    def end(self) -> bytes:
        """What was held back and was none."""
        rest, self._held = self._held, b""
        return rest

    def _begun_at(self, data: bytes) -> int:
        for at in range(max(0, len(data) - self._longest + 1), len(data)):
            if data[at : at + HEAD_BYTES] in self._heads and any(form.startswith(data[at:]) for form in self._forms):
                return at
        return len(data)
