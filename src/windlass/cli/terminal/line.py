"""One line or several being written behind a prompt: prompt_toolkit's buffer, and the keys that differ from its own."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable, Sequence

from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, get_common_complete_suffix
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples, fragment_list_to_text
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, CompletionsMenu, HSplit, Window
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments

from .text import is_mark
from .visible_text import visible

TEXT_MAX = 400_000
"""Letters of one input."""
MENU_ROWS_MAX = 6
CONTINUED = "  "
"""What stands before every row but the first."""
PLAIN = re.compile(r"[\x20-\x7e]*\Z")
Complete = Callable[[str], Sequence[str]]
"""What the text so far could become."""


class Spelt(Processor):
    """Draws what a terminal would obey as letters, whoever pasted it, and a tab as a space."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        if PLAIN.match(fragment_list_to_text(transformation_input.fragments)):
            return Transformation(transformation_input.fragments)
        source = explode_text_fragments(transformation_input.fragments)
        drawn: StyleAndTextTuples = [(style, _drawn(letter)) for style, letter, *_ in source]
        starts = [0]
        for _, text, *_ in drawn:
            starts.append(starts[-1] + len(text))
        return Transformation(
            drawn,
            source_to_display=lambda at: starts[min(at, len(drawn))] + max(0, at - len(drawn)),
            display_to_source=lambda at: max(0, bisect.bisect_right(starts, at) - 1),
        )


def _drawn(letter: str) -> str:
    return " " if letter == "\t" else visible(letter)


class Completions(Completer):
    """Completes a whole line by a function of ours."""

    def __init__(self, complete: Complete) -> None:
        self._complete = complete

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        if document.is_cursor_at_the_end:
            for text in self._complete(document.text):
                yield Completion(text, start_position=-len(document.text), display=visible(text))


class LineInput:
    """What is written behind a prompt. `submitted`, `ended` and `escaped` are told when it is sent, when the input is
    over, and when it is declined."""

    def __init__(
        self,
        prompt: str,
        *,
        submitted: Callable[[str], None],
        ended: Callable[[], None],
        escaped: Callable[[], None] = lambda: None,
        history: History | None = None,
        complete: Complete = lambda text: (),
        style: str = "",
    ) -> None:
        self._prompt = prompt
        self._style = style
        self._submitted = submitted
        self._ended = ended
        self._escaped = escaped
        self._completions = Completions(complete)
        self.buffer = Buffer(history=history, multiline=True)
        control = BufferControl(self.buffer, input_processors=[Spelt()], key_bindings=self._keys())
        self.window = Window(control, wrap_lines=True, dont_extend_height=True, get_line_prefix=self._prefix)
        self.container = HSplit([self.window, CompletionsMenu(max_height=MENU_ROWS_MAX)])

    @property
    def text(self) -> str:
        return self.buffer.text

    @text.setter
    def text(self, text: str) -> None:
        self.buffer.document = Document(text[:TEXT_MAX])

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        if line == wrapped == 0:
            return [(self._style, self._prompt)]
        return [("", CONTINUED)]

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        keys.add("enter")(self._enter)
        keys.add("escape", "enter")(lambda event: self._insert("\n"))
        keys.add("escape")(lambda event: self._escaped())
        keys.add("c-d")(self._end_or_delete)
        keys.add("tab")(self._tab)
        for key in ("left", "c-b"):
            keys.add(key)(lambda event: self._move(-_mark_left(event.current_buffer.document)))
        for key in ("right", "c-f"):
            keys.add(key)(lambda event: self._move(_mark_right(event.current_buffer.document)))
        keys.add("backspace")(self._backspace)
        keys.add("delete")(self._delete)
        keys.add(Keys.BracketedPaste)(self._paste)
        keys.add(Keys.Any, filter=Condition(lambda: len(self.buffer.text) >= TEXT_MAX))(lambda event: None)
        return keys

    # --- what the keys do ---

    def _insert(self, text: str) -> None:
        self.buffer.insert_text(text[: max(0, TEXT_MAX - len(self.buffer.text))])

    def _paste(self, event: KeyPressEvent) -> None:
        self._insert(event.data.replace("\r\n", "\n").replace("\r", "\n"))

    def _enter(self, event: KeyPressEvent) -> None:
        """Sends the text; a backslash at the end of it asks for another line instead."""
        if self.buffer.document.is_cursor_at_the_end and self.text.endswith("\\"):
            self.buffer.delete_before_cursor()
            self._insert("\n")
            return
        text = self.text
        self.buffer.reset(append_to_history=True)
        self.buffer.load_history_if_not_yet_loaded()  # now, and not only when it is drawn: the next key may be Up
        self._submitted(text)

    def _end_or_delete(self, event: KeyPressEvent) -> None:
        if self.text:
            self._delete(event)
        else:
            self._ended()

    def _move(self, by: int) -> None:
        self.buffer.cursor_position += by

    def _backspace(self, event: KeyPressEvent) -> None:
        self.buffer.delete_before_cursor(_mark_left(self.buffer.document))

    def _delete(self, event: KeyPressEvent) -> None:
        self.buffer.delete(_mark_right(self.buffer.document))

    def _tab(self, event: KeyPressEvent) -> None:
        """Completes what stands before the cursor as far as there is no doubt; then lists what it could be. At once,
        so that a key which follows finds the text complete."""
        if self.buffer.complete_state is not None:
            self.buffer.complete_next()
            return
        document = self.buffer.document
        completions = list(self._completions.get_completions(document, CompleteEvent(completion_requested=True)))
        if len(completions) == 1:
            self.buffer.apply_completion(completions[0])
        elif shared := get_common_complete_suffix(document, completions):
            self._insert(shared)
        elif completions:
            self.buffer.complete_state = CompletionState(document, completions)


def _mark_left(document: Document) -> int:
    """How many letters the cursor goes to the left: marks belong to the letter before them."""
    before = document.text_before_cursor
    count = min(1, len(before))
    while 0 < count < len(before) and is_mark(before[-count]):
        count += 1
    return count


def _mark_right(document: Document) -> int:
    after = document.text_after_cursor
    count = min(1, len(after))
    while 0 < count < len(after) and is_mark(after[count]):
        count += 1
    return count
