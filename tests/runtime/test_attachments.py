"""What is attached to a prompt reaches the model in every wire format, bounded, read once, and the same for ever."""

from __future__ import annotations

import asyncio
import base64
import os
import pathlib
from typing import Any

import msgspec
import pydantic
import pytest

import windlass
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.errors import NotFound
from windlass.events.turns import ModelReplied
from windlass.events.values.blocks import (
    DirectoryAttachment,
    Document,
    DocumentAttachment,
    FileAttachment,
    Image,
    ImageAttachment,
    LineRange,
    Position,
    ReferenceAttachment,
    SelectionAttachment,
    Text,
    refs_in,
)
from windlass.events.values.ids import prompt_id
from windlass.models.base import Request
from windlass.runtime.api.agent import Agent
from windlass.runtime.api.runtime import Runtime
from windlass.runtime.commands.attachments import MEDIA_BYTES_ALL_MAX, TEXT_BYTES_ALL_MAX
from windlass.runtime.hooks.hook import Denied, Moment
from windlass.runtime.hooks.pattern_guard import pattern_guard
from windlass.runtime.operate.log_point import read_point
from windlass.runtime.operate.replay import ReplayPlan, replay
from windlass.store import MemoryStore
from windlass.store.base import Key
from windlass.store.transfer.exporter import export_session
from windlass.store.transfer.importer import adopt_export, read_export, spool
from windlass.testing.model_server import Format, call, say
from windlass.testing.scripted import ScriptedModel, by_history
from windlass.tools.files.attachments import IMAGE_BYTES_MAX, LISTING, TEXT_BYTES_MAX
from windlass.tools.planes.results import INLINE_MEDIA_BYTES

from .serving import FORMATS, serving
from .support import events_of, only

PNG = b"\x89PNG\r\n\x1a\n"
SMALL, LARGE = PNG + b"small", PNG + bytes(INLINE_MEDIA_BYTES)
GIF, WAV, PDF = b"GIF89a" + bytes(20), b"RIFF0000WAVEfmt " + bytes(20), b"%PDF-1.7\n" + bytes(40)


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A working folder with something of every kind."""
    place = tmp_path / "work"
    (place / "src").mkdir(parents=True)
    (place / "notes.txt").write_text("".join(f"line {number}\n" for number in range(1, 51)), encoding="utf-8")
    (place / "src" / "pay.py").write_text("def pay(): ...\n", encoding="utf-8")
    (place / "src" / "junk.log").write_text("x", encoding="utf-8")
    (place / ".gitignore").write_text("*.log\n", encoding="utf-8")
    for name, data in (("small.png", SMALL), ("large.png", LARGE), ("a.gif", GIF), ("a.wav", WAV), ("a.pdf", PDF)):
        (place / name).write_bytes(data)
    monkeypatch.chdir(place)
    return place


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


ALL: list[Any] = [
    FileAttachment(path="notes.txt", lines=LineRange(start=3, end=5)),
    pathlib.Path("src"),
    SelectionAttachment(
        path="a.py", text="chosen words", start=Position(line=0, character=4), end=Position(line=2, character=0)
    ),
    ReferenceAttachment(kind="issue", url="https://example.org/issues/7", number=7, title="It hangs", state="open"),
    "https://example.org/owner/name/pull/12",
    ImageAttachment(image=Image(media_type="image/png", data=b64(SMALL)), name="shot"),
    DocumentAttachment(document=Document(media_type="application/pdf", data=b64(PDF), name="terms.pdf")),
    "large.png",
]
TEXTS = [
    "[attached file 'notes.txt', lines 3 to 5]\nline 3\nline 4\nline 5\n\n[end of the attached file 'notes.txt', lines 3 to 5]",
    "[attached directory 'src', its entries; left out: left out as noise: src/junk.log; attach one of them by its own path "
    "to show it]\nsrc/pay.py (15 bytes)\n[end of",
    "[attached selection from 'a.py', 1:5 to 3:1]\nchosen words\n[end of",
    "[attached issue #7 'It hangs' (open), https://example.org/issues/7: only its address is here]",
    "[attached pull request #12, https://example.org/owner/name/pull/12: only its address is here]",
    "[attached image 'shot']",
    "[attached document 'terms.pdf']",
    "[attached file 'large.png']",
]


def told(raw: bytes) -> list[str]:
    """Every text in a request, in its order."""
    found: list[str] = []
    waiting: list[Any] = [msgspec.json.decode(raw)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, dict):
            waiting += reversed(list(part.values()))
        elif isinstance(part, list):
            waiting += reversed(part)
    return found


@pytest.mark.parametrize("form", FORMATS)
async def test_every_kind_reaches_the_model_in_every_format(tmp_path, folder, form: Format):
    async with serving(tmp_path, say("seen")) as case:
        async with case.session(case.agent(form, info={"documents": True})) as session:
            await session.prompt("Look.", attachments=ALL)
            assert (await session.result()).text == "seen"
    raw = case.server.requests[0].raw
    texts = told(raw)
    for wanted in ("Look.", *TEXTS):
        assert any(wanted in text for text in texts), wanted
    for data in (SMALL, LARGE, PDF):
        assert any(b64(data) in text for text in texts)
    parsed = case.server.requests[0].parsed
    assert parsed is not None
    said = [message for message in parsed.messages if message.role == "user"]
    assert (sum(each.images for each in said), sum(each.documents for each in said)) == (2, 1)


def as_the_vendor_types_it(form: Format, body: Any) -> list[str]:
    """The kinds of parts of the first user message, each checked against the types of the vendor's own client."""
    if form == "gemini":
        from google.genai.types import Part

        parts = [Part.model_validate(part) for part in body["contents"][0]["parts"]]
        return [
            "text" if part.text is not None else str(part.inline_data and part.inline_data.mime_type) for part in parts
        ]
    kind: Any
    if form == "anthropic":
        from anthropic.types import ContentBlockParam as kind
    elif form == "openai":
        from openai.types.chat import ChatCompletionContentPartParam as kind
    else:
        from openai.types.responses import ResponseInputContentParam as kind
    messages = body["input"] if form == "responses" else body["messages"]
    content = next(message["content"] for message in messages if message["role"] == "user")
    for part in content:
        pydantic.TypeAdapter(kind).validate_python(part)
    return [part["type"] for part in content]


MEDIA_KINDS: dict[Format, list[str]] = {
    "anthropic": ["image", "document", "image"],
    "openai": ["image_url", "file", "image_url"],
    "responses": ["input_image", "input_file", "input_image"],
    "gemini": ["image/png", "application/pdf", "image/png"],
}


@pytest.mark.parametrize("form", FORMATS)
async def test_the_vendors_own_types_take_what_is_sent(tmp_path, folder, form: Format):
    async with serving(tmp_path, say("seen")) as case, case.session(case.agent(form)) as session:
        await session.prompt("Look.", attachments=ALL)
        await session.result()
    kinds = as_the_vendor_types_it(form, case.server.requests[0].body)
    assert [kind for kind in kinds if kind not in ("text", "input_text")] == MEDIA_KINDS[form]
    assert len(kinds) == 1 + len(ALL) + 3


@pytest.mark.parametrize("form", FORMATS)
async def test_a_later_process_sends_the_same_bytes_whatever_became_of_the_files(tmp_path, folder, form: Format):
    async with serving(tmp_path, say("one"), say("two")) as case:
        async with case.session(case.agent(form)) as session:
            await session.prompt("Look.", attachments=["notes.txt", "large.png", "src"])
            await session.result()
        (folder / "notes.txt").write_text("something else", encoding="utf-8")
        (folder / "large.png").unlink()
        (folder / "src" / "pay.py").unlink()
        async with case.session(case.agent(form)) as session:
            await session.prompt("And now?")
            assert (await session.result()).text == "two"
    first, second = (told(request.raw) for request in case.server.requests)
    shared = [text for text in first if "attached" in text or b64(LARGE) in text]
    assert len(shared) >= 4
    assert [text for text in second if text in shared] == shared


async def test_a_replay_sends_what_was_attached_then(folder):
    store, seen = MemoryStore(), list[Request]()

    def agent() -> Agent:
        turns = by_history(["Seen."])

        def answer(request: Request):
            seen.append(request)
            return turns(request)

        return Agent("reader", model=ScriptedModel(answer))

    async with Runtime(store, agents=[made := agent()]) as runtime:
        session = await runtime.session(made, "then")
        await session.prompt("Look.", attachments=["notes.txt", "large.png"])
        await session.result()
    (folder / "notes.txt").unlink()
    (folder / "large.png").write_bytes(GIF)
    await replay(store, await read_point(store, Key("default", "then")), agent(), ReplayPlan())
    then, now = (request.items[0] for request in seen)
    assert now.content == then.content
    assert seen[-1].blobs is not None
    (picture,) = [block for block in now.content if isinstance(block, Image)]
    assert picture.blob is not None
    assert await seen[-1].blobs(picture.blob) == LARGE
    await store.close()


@pytest.mark.parametrize(
    ("form", "info", "name", "wanted"),
    [
        ("openai", {"images": False}, "small.png", "(image cannot be shown to this model)"),
        ("anthropic", {}, "a.wav", "(audio cannot be shown to this model)"),
        ("responses", {}, "a.wav", "(audio cannot be shown to this model)"),
        ("gemini", {}, "a.gif", "(image cannot be shown to this model)"),
    ],
)
async def test_a_format_without_a_place_for_it_says_so(tmp_path, folder, form, info, name, wanted):
    async with serving(tmp_path, say("ok")) as case:
        async with case.session(case.agent(form, info=info)) as session:
            await session.prompt("Look.", attachments=[name])
            await session.result()
    texts = told(case.server.requests[0].raw)
    assert [text for text in texts if "attached" in text or "cannot" in text] == [f"[attached file '{name}']", wanted]


async def test_a_large_picture_of_a_tool_reaches_the_model(tmp_path, folder):
    @windlass.tool
    def look() -> bytes:
        "Look."
        return LARGE

    async with serving(tmp_path, call("look", {}), say("seen")) as case:
        async with case.session(case.agent("anthropic", tools=[look])) as session:
            await session.prompt("Look.")
            assert (await session.result()).text == "seen"
    assert b64(LARGE).encode() in case.server.requests[1].raw


async def content(given: Any, **more: Any) -> str:
    """What the model is told of one attachment."""
    seen: list[Request] = []

    def answer(request: Request) -> str:
        seen.append(request)
        return "ok"

    agent = Agent("reader", model=ScriptedModel(answer))
    await agent.run("Look.", attachments=[given], **more)
    return "\n".join(block.text for block in seen[0].items[0].content if isinstance(block, Text))


async def test_a_file_is_cut_at_a_line_and_says_so(folder):
    line = "x" * 99 + "\n"
    (folder / "huge.txt").write_text(line * 5_000, encoding="utf-8")
    text = await content("huge.txt")
    kept = TEXT_BYTES_MAX // 100
    head = f"[attached file 'huge.txt', lines 1 to {kept:,}; left out: what comes behind line {kept:,} (the file has 500,000"
    assert head in text
    assert text.count("x" * 99) == kept


async def test_one_endless_line_is_cut_between_two_letters(folder):
    (folder / "line.txt").write_text("ä" * TEXT_BYTES_MAX, encoding="utf-8")
    text = await content("line.txt")
    assert f"what comes behind the first {TEXT_BYTES_MAX:,} bytes of line 1" in text
    assert text.count("ä") == TEXT_BYTES_MAX // 2
    assert "\ufffd" not in text


async def test_lines_deep_in_a_file_and_behind_its_end(folder):
    assert "lines 49 to 50]\nline 49\nline 50\n" in await content(
        FileAttachment(path="notes.txt", lines=LineRange(start=49, end=900))
    )
    with pytest.raises(windlass.UsageError, match="from line 51 on: it has only 50 lines"):
        await content(FileAttachment(path="notes.txt", lines=LineRange(start=51, end=52)))
    with pytest.raises(windlass.UsageError, match="lines are counted from 1"):
        await content(FileAttachment(path="notes.txt", lines=LineRange(start=9, end=3)))


async def test_bytes_that_are_no_utf8_are_replaced_and_that_is_said(folder):
    (folder / "latin.txt").write_bytes("Größe".encode("latin-1"))
    assert "left out: bytes that are not UTF-8; \ufffd stands for them]\nGr\ufffd\ufffde" in await content("latin.txt")


async def test_all_texts_together_have_a_bound(folder):
    for number in range(4):
        (folder / f"{number}.txt").write_text(f"{number}" * 99 + "\n" + ("y" * 99 + "\n") * 1_700, encoding="utf-8")
    seen: list[Request] = []

    def answer(request: Request) -> str:
        seen.append(request)
        return "ok"

    await Agent("reader", model=ScriptedModel(answer)).run("Look.", attachments=[f"{n}.txt" for n in range(4)])
    texts = [block.text for block in seen[0].items[0].content if isinstance(block, Text)][1:]
    assert len(texts) == 4
    assert TEXT_BYTES_ALL_MAX - 400 < sum(map(len, texts)) < TEXT_BYTES_ALL_MAX + 1_000
    assert ["left out" in text for text in texts] == [False, False, True, True]


@pytest.mark.parametrize(
    "given",
    [
        FileAttachment(path="a.txt", content=Text(text="z" * 3 * TEXT_BYTES_MAX)),
        SelectionAttachment(
            path="a.txt",
            text="z" * 3 * TEXT_BYTES_MAX,
            start=Position(line=0, character=0),
            end=Position(line=1, character=0),
        ),
        DirectoryAttachment(path="many", listing="z" * 3 * TEXT_BYTES_MAX),
    ],
    ids=["file", "selection", "directory"],
)
async def test_a_text_that_its_sender_read_itself_has_the_same_bound(given):
    text = await content(given)
    assert text.count("z") == TEXT_BYTES_MAX
    assert f"left out: {2 * TEXT_BYTES_MAX:,} of {3 * TEXT_BYTES_MAX:,} bytes, at the end" in text


async def test_a_directory_of_thousands_is_listed_in_part(folder):
    many = folder / "many"
    many.mkdir()
    for number in range(3_000):
        (many / f"{number:04}").touch()
    text = await content("many")
    assert text.count("\nmany/") == LISTING.lines
    assert f"left out: all behind the first {LISTING.lines:,} entries" in text


async def test_what_cannot_be_attached_is_refused_with_the_reason(folder, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("s3cret", encoding="utf-8")
    (folder / "link.txt").symlink_to(secret)
    (folder / "out").symlink_to(tmp_path)
    (folder / "program").write_bytes(b"\x7fELF\x00\x01")
    (folder / "wide.txt").write_bytes("words".encode("utf-16"))
    os.mkfifo(folder / "pipe")
    with (folder / "big.png").open("wb") as file:
        file.write(PNG)
        file.truncate(IMAGE_BYTES_MAX + 1)
    for given, wanted in (
        ("nots.txt", "cannot attach nots.txt: there is no nots.txt; did you mean notes.txt"),
        ("none/a.txt", "there is no none/a.txt"),
        ("link.txt", "it is a link, or lies behind one, that leads elsewhere; attach what is meant by its own path"),
        ("out/secret.txt", "it is a link, or lies behind one"),
        ("program", "it is binary; only text in UTF-8, pictures"),
        ("wide.txt", "it is UTF-16 text; only text in UTF-8"),
        ("pipe", "pipe is a pipe: only regular files are read"),
        ("big.png", f"it has more than the {IMAGE_BYTES_MAX:,} bytes that image/png may have"),
        ("", "that is no path"),
        ("a\0b", "that is no path"),
        ("https://example.org/x", "only issues, pull requests and discussions are attached by their address"),
        (FileAttachment(path="src", lines=LineRange(start=1, end=2)), "cannot attach lines of src: it is a directory"),
        (FileAttachment(path="a.gif", lines=LineRange(start=1, end=2)), "it is not text \\(image/gif\\)"),
        (ImageAttachment(image=Image(media_type="image/png", data="no base64!")), "is not base64"),
        (7, "an attachment is a path, an address or an attachment"),
    ):
        with pytest.raises(windlass.UsageError, match=wanted):
            await content(given)
    assert "s3cret" in await content(str(secret))


async def test_a_link_within_the_folder_is_followed(folder):
    (folder / "alias.txt").symlink_to("notes.txt")
    assert "[attached file 'alias.txt']\nline 1\n" in await content("alias.txt")


async def test_pictures_together_have_a_bound(folder):
    for number in range(4):
        (folder / f"{number}.png").write_bytes(PNG + bytes([number]) * (IMAGE_BYTES_MAX - 8))
    agent = Agent("reader", model=ScriptedModel(["ok"]))
    with pytest.raises(windlass.UsageError, match=f"may have {MEDIA_BYTES_ALL_MAX:,} bytes together"):
        await agent.run("Look.", attachments=[f"{number}.png" for number in range(4)])
    with pytest.raises(windlass.UsageError, match=r"write attachments=\['0.png'\]"):
        await agent.run("Look.", attachments="0.png")


async def test_an_owner_never_reads_a_path_that_a_command_names(folder):
    (folder / "secret.txt").write_text("s3cret", encoding="utf-8")
    seen: list[Request] = []

    def answer(request: Request) -> str:
        seen.append(request)
        return "ok"

    async with windlass.open(None, agents=[agent := Agent("reader", model=ScriptedModel(answer))]) as rt:
        session = await rt.session(agent)
        body = PromptBody(content=(Text(text="Look."),), attachments=(FileAttachment(path="secret.txt"),))
        await rt.send(session.key, PromptReceived(command_id="from-outside", body=body))
        await session.result()
    assert [block.text for block in seen[0].items[0].content if isinstance(block, Text)] == [
        "Look.",
        "[attached file 'secret.txt': its content was not sent]",
    ]


async def test_a_prompt_may_be_an_attachment_alone_and_what_it_weighs_is_counted(folder):
    async with windlass.open(None, agents=[agent := Agent("reader", model=ScriptedModel(["ok"]))]) as rt:
        session = await rt.session(agent)
        await session.prompt((), attachments=["notes.txt"])
        assert (await session.result()).text == "ok"
        (prompt,) = only(await events_of(session), PromptReceived)
        assert prompt.tokens > 100
        assert prompt.bytes > 350


async def test_new_words_for_a_prompt_that_waits_leave_its_attachments(folder):
    seen: list[Request] = []
    go = asyncio.Event()

    async def answer(request: Request) -> str:
        seen.append(request)
        await go.wait()
        return "ok"

    async with windlass.open(None, agents=[agent := Agent("reader", model=ScriptedModel(answer))]) as rt:
        session = await rt.session(agent)
        await session.prompt("First.")
        await session.prompt("Second.", behavior="follow_up", attachments=["notes.txt"])
        (waiting,) = (await session.state()).queue.waiting
        for words in ("Rewritten.", "Rewritten again."):
            await session.edit_queue(prompt_id(waiting), texts={prompt_id(waiting): words})
        go.set()
        await session.wait_idle()
    texts = [block.text for block in seen[-1].items[-1].content if isinstance(block, Text)]
    assert texts[0] == "Rewritten again."
    assert texts[1].startswith("[attached file 'notes.txt']\nline 1\n")


async def test_an_export_takes_what_is_attached_along(folder):
    old, new = MemoryStore(), MemoryStore()
    async with Runtime(old, agents=[agent := Agent("reader", model=ScriptedModel(["ok"]))]) as runtime:
        session = await runtime.session(agent, "then")
        await session.prompt("Look.", attachments=["large.png", "notes.txt"])
        await session.result()
    key = Key("default", "then")
    with spool() as room:
        await adopt_export(new, await read_export(export_session(old, key), room), key)
    point = await read_point(new, key)
    (prompt,) = [event for event in point.events.values() if isinstance(event, PromptReceived)]
    (ref,) = refs_in(prompt)
    assert await new.blobs.get(key.tenant, ref.digest) == LARGE


async def test_what_is_erased_takes_its_pictures_along(folder):
    async with windlass.open(None, agents=[agent := Agent("reader", model=ScriptedModel(["ok", "ok"]))]) as rt:
        session = await rt.session(agent)
        await session.prompt("Look.", attachments=["large.png"])
        await session.result()
        records = [record async for record in session.records()]
        (record,) = [record for record in records if isinstance(record.event, PromptReceived)]
        (ref,) = refs_in(record.event)
        digest = ref.digest
        assert await rt.store.blobs.get("default", digest) == LARGE
        await session.erase(record.seq, "asked to")
        with pytest.raises(NotFound):
            await rt.store.blobs.get("default", digest)
        await session.prompt("And now?")
        assert (await session.result()).text == "ok"


async def test_guards_judge_what_is_attached(folder):
    (folder / "keys.env").write_text("TOKEN=abc\n", encoding="utf-8")

    def no_env(moment: Moment) -> Denied | None:
        paths = [attachment.get("path", "") for attachment in moment.attachments]
        return Denied(message="not this file") if any(path.endswith(".env") for path in paths) else None

    guard = windlass.Hook(point="prompt", kind="guard", run=no_env)
    for hook, told_so in ((guard, "not this file"), (pattern_guard(["TOKEN="], point="prompt"), "'TOKEN='")):
        agent = Agent("reader", model=ScriptedModel(["ok"]), hooks=[hook])
        with pytest.raises(windlass.Refused, match=told_so):
            await agent.run("Look.", attachments=["keys.env"])
        assert (await agent.run("Look.", attachments=["notes.txt"])).text == "ok"


async def test_a_picture_in_a_prompt_may_be_large(folder):
    async with windlass.open(None, agents=[agent := Agent("reader", model=ScriptedModel(["ok"]))]) as rt:
        session = await rt.session(agent)
        data = PNG + bytes(2_000_000)
        await session.prompt([Text(text="Look."), Image(media_type="image/png", data=b64(data))])
        await session.result()
        events = await events_of(session)
        assert only(events, ModelReplied)
        (prompt,) = only(events, PromptReceived)
        assert prompt.body is not None
        picture = prompt.body.content[1]
        assert isinstance(picture, Image)
        assert picture.blob is not None
        assert await rt.store.blobs.get("default", picture.blob.digest) == data
