"""Sessions as resources, commands, answers and operator verbs, over a real server."""

from __future__ import annotations

import asyncio
import hashlib

from windlass.server.access.limits import Limits

from .support import PROMPT, clerk, serving


async def test_a_session_is_begun_prompted_approved_and_done(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        assert await admin.get("/v1/agents") == {"agents": [{"name": "clerk", "tools": ["pay"]}]}
        made = await admin.ask("POST", "/v1/sessions", json={"agent": "clerk", "session_id": "march", "title": "March"})
        again = await admin.ask("POST", "/v1/sessions", json={"agent": "clerk", "session_id": "march"})
        assert (made.status, again.status) == (201, 200)
        assert made.json["session"]["title"] == "March"
        taken = await admin.prompt("march", "k1")
        assert taken == {"command_id": "k1", "session_id": "march", "seq": 2}
        asked = await admin.asked("march")
        assert (asked["tool"], asked["detail"]["args"]) == ("pay", {"amount": 3})
        listed = await admin.get("/v1/sessions?state=asked")
        assert [row["session"] for row in listed["sessions"]] == ["march"]
        await admin.post(
            f"/v1/sessions/march/requests/{asked['request_id']}", {"decision": "approve", "digest": asked["digest"]}
        )
        ended = (await admin.get("/v1/sessions/march/result?wait_s=60"))["result"]
        assert (ended["status"], ended["text"]) == ("completed", "It is paid.")
        log = await admin.records("march")
        approved = next(one["event"] for one in log if one["event"]["type"] == "permission.approved")
        assert (approved["actor"], approved["auth"]) == ("first", "token")
        assert (await admin.get("/v1/sessions/march"))["cursor"] == log[-1]["cursor"]


async def test_a_command_under_the_same_key_is_taken_once_and_acknowledged_again(tmp_path):
    async with serving(tmp_path, [clerk(ask=False)]) as running:
        admin = running.client()
        await admin.begin("a")
        first, *others = await asyncio.gather(*(admin.prompt("a", "k1") for _ in range(5)))
        assert others == [first] * 4
        await admin.get("/v1/sessions/a/result?wait_s=60")
        log = await admin.records("a")
        assert [one["event"]["type"] for one in log].count("prompt.received") == 1


async def test_the_first_answer_counts_and_the_others_are_told_what_came_first(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        ada, bob = running.client("approve", name="ada"), running.client("approve", name="bob")
        await admin.begin("a")
        await admin.prompt("a")
        asked = await admin.asked("a")
        place = f"/v1/sessions/a/requests/{asked['request_id']}"
        answers = await asyncio.gather(
            ada.ask("POST", place, json={"decision": "approve", "digest": asked["digest"]}),
            bob.ask("POST", place, json={"decision": "approve", "digest": asked["digest"]}),
        )
        assert sorted(said.status for said in answers) == [200, 409]
        late = next(said.json for said in answers if said.status == 409)
        winner = "ada" if answers[0].status == 200 else "bob"
        assert late["code"] == "not_open"
        assert late["detail"].endswith((f"{winner} approved it", f"approved by {winner}"))
        assert await admin.get("/v1/sessions/a/requests") == {"permissions": [], "questions": []}


async def test_a_denial_with_feedback_reaches_the_model(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        await admin.begin("a")
        await admin.prompt("a")
        asked = await admin.asked("a")
        place = f"/v1/sessions/a/requests/{asked['request_id']}"
        await admin.post(place, {"decision": "deny", "feedback": "Not this month."})
        await admin.get("/v1/sessions/a/result?wait_s=60")
        log = await admin.records("a")
        denied = next(one["event"] for one in log if one["event"]["type"] == "permission.denied")
        assert denied["body"] == {"feedback": "Not this month."}


async def test_records_come_in_pages_that_join_without_a_gap(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        await admin.paid("a")
        whole = await admin.records("a")
        pages, cursor, more = [], "", True
        while more:
            page = await admin.get(f"/v1/sessions/a/records?limit=3&after={cursor}")
            pages += page["records"]
            cursor, more = page["cursor"], page["more"]
        assert pages == whole
        assert [one["seq"] for one in whole] == list(range(1, len(whole) + 1))


async def test_operators_verify_inspect_fork_compare_and_replay(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        await admin.paid("a")
        length = len(await admin.records("a"))
        verdict = await admin.get("/v1/sessions/a/verify")
        assert (verdict["sound"], verdict["records"], verdict["problems"]) == (True, length, [])
        seen = await admin.get("/v1/sessions/a/inspect")
        assert [item["type"] for item in seen["items"]] == ["user", "assistant", "result", "assistant"]
        early = await admin.get("/v1/sessions/a/inspect?at=2")
        assert (early["at"], [item["type"] for item in early["items"]]) == (2, [])
        assert await admin.post("/v1/sessions/a/fork", {"session_id": "b"}) == {"session_id": "b"}
        assert await admin.get("/v1/sessions/a/compare/b") == {"same": True, "difference": []}
        again = await admin.post("/v1/sessions/a/replay", {"agent": "clerk", "session_id": "c"})
        expected = {"replayed": "a", "session_id": "c", "strayed": False, "same": True, "difference": []}
        assert again == expected


async def test_content_is_erased_and_the_log_still_verifies(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        await admin.paid("a")
        assert (await admin.ask("POST", "/v1/sessions/a/erase", json={"seq": 2, "why": "asked for"})).status == 204
        prompt = (await admin.records("a"))[1]["event"]
        assert "body" not in prompt
        assert (prompt["erased"]["by"], prompt["erased"]["why"]) == ("first", "asked for")
        assert (await admin.get("/v1/sessions/a/verify"))["sound"]


async def test_a_session_is_removed_unless_it_works_or_a_fork_needs_it(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        await admin.paid("a")
        await admin.post("/v1/sessions/a/fork", {"session_id": "b"})
        assert (await admin.ask("DELETE", "/v1/sessions/a")).status == 400
        assert (await admin.ask("DELETE", "/v1/sessions/b")).status == 204
        assert (await admin.ask("DELETE", "/v1/sessions/a")).status == 204
        assert (await admin.ask("GET", "/v1/sessions/a")).status == 404
        assert (await admin.get("/v1/sessions"))["sessions"] == []


async def test_blobs_are_kept_by_digest_and_never_shown_by_a_browser(tmp_path):
    async with serving(tmp_path, limits=Limits(blob_bytes=100)) as running:
        admin = running.client()
        kept = await admin.ask("POST", "/v1/blobs", data=b"<script>", headers={"Content-Type": "text/html"})
        digest = "sha256:" + hashlib.sha256(b"<script>").hexdigest()
        assert kept.json == {"digest": digest, "size": 8, "media_type": "text/html"}
        said = await admin.ask("GET", f"/v1/blobs/{digest}")
        assert (said.status, said.body, said.headers["blob-media-type"]) == (200, b"<script>", "text/html")
        assert said.headers["content-type"] == "application/octet-stream"
        assert said.headers["content-disposition"] == "attachment"
        assert (await admin.ask("GET", f"/v1/blobs/{digest}?start=1&length=3")).body == b"scr"
        assert (await admin.ask("GET", "/v1/blobs/sha256:" + "0" * 64)).status == 404
        assert (await admin.ask("GET", "/v1/blobs/..%2f..%2fetc")).status == 400
        assert (await admin.ask("POST", "/v1/blobs", data=b"x" * 101)).status == 413


UNFIT = [
    ({"type": "prompt.received", "boddy": 1}, 422, "$.boddy"),
    ({"type": "nothing"}, 422, "$.type"),
    ({"type": "prompt.received"}, 422, None),
    ({"type": "permission.approved", "request_id": "p9", "digest": "d"}, 409, None),
    ({"type": "tool.settled", "call_id": "c9.0", "outcome": "happened"}, 409, None),
]


async def test_a_command_that_does_not_fit_is_refused_with_the_reason(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        await admin.begin("a")
        for body, status, path in UNFIT:
            said = await admin.ask("POST", "/v1/sessions/a/commands", json=body)
            assert (said.status, said.json.get("path")) == (status, path), body
            assert said.headers["content-type"] == "application/problem+json"
        assert len(await admin.records("a")) == 1


async def test_an_id_that_the_runtime_might_use_itself_is_no_key(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        await admin.begin("a")
        for key in ("task:a~c1.0", "a b", "x" * 101, "é"):
            said = await admin.ask("POST", "/v1/sessions/a/commands", json=PROMPT, headers={"Idempotency-Key": key})
            assert said.status == 400, key
        assert len(await admin.records("a")) == 1


async def test_a_result_that_is_not_there_yet_is_null_and_of_no_run_a_problem(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        await admin.begin("a")
        assert (await admin.ask("GET", "/v1/sessions/a/result")).json["code"] == "no_run"
        await admin.ask("POST", "/v1/sessions/a/commands", json={"type": "wake.received"})
        assert (await admin.ask("GET", "/v1/sessions/a/result?wait_s=61")).status == 400
        assert (await admin.ask("GET", "/v1/sessions/a/result?wait=1")).status == 400


async def test_figures_count_routes_and_name_no_session(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        await admin.begin("secret-name")
        await admin.get("/v1/sessions/secret-name")
        text = (await admin.ask("GET", "/v1/metrics")).body.decode()
        assert 'windlass_requests_total{method="GET",route="/v1/sessions/{session_id}",status="200"} 1\n' in text
        assert "windlass_sessions_driven 1.0\n" in text
        assert "secret-name" not in text


async def test_a_server_that_drains_is_not_ready_and_takes_nothing_on(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        await admin.paid("a")
        assert (await admin.get("/v1/ready"))["status"] == "ready"
        assert await running.server.drain() == ()
        assert (await admin.ask("GET", "/v1/ready")).status == 503
        assert (await admin.ask("POST", "/v1/sessions/a/commands", json=PROMPT)).json["code"] == "draining"
        assert (await admin.get("/v1/health"))["status"] == "ok"
        assert (await admin.get("/v1/sessions/a/verify"))["sound"]


# --- what an attacker tried ---


async def test_a_key_that_somebody_took_for_another_command_is_said_to_be(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin, driver = running.client(), running.client("drive", name="dan")
        await admin.begin("a")
        await admin.prompt("a")
        asked = await admin.asked("a")
        title = {"type": "change.received", "change": {"what": "title", "title": "mine"}}
        await driver.post("/v1/sessions/a/commands", title, "deny-it")
        place = f"/v1/sessions/a/requests/{asked['request_id']}"
        headers = {"Idempotency-Key": "deny-it"}
        said = await admin.ask("POST", place, json={"decision": "deny"}, headers=headers)
        assert (said.status, said.json["code"]) == (409, "key_reused")
        again = await driver.ask("POST", "/v1/sessions/a/commands", json={"type": "cancel.received"}, headers=headers)
        assert (again.status, again.json["code"]) == (409, "key_reused")
        assert (await admin.asked("a"))["request_id"] == asked["request_id"]


async def test_a_key_that_comes_again_with_something_else_is_refused_and_a_true_repeat_never_is(tmp_path):
    def prompt(text: str, **more: object) -> dict[str, object]:
        return {"type": "prompt.received", "body": {"content": [{"type": "text", "text": text}]}, **more}

    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        await admin.begin("a")
        place, headers = "/v1/sessions/a/commands", {"Idempotency-Key": "k"}
        first = await admin.post(place, prompt("Pay."), "k")
        spelt_out = {"body": prompt("Pay.")["body"], "labels": [], "type": "prompt.received"}
        traced = headers | {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
        for said in (
            await admin.ask("POST", place, json=spelt_out, headers=headers),
            await admin.ask("POST", place, json=prompt("Pay."), headers=traced),
        ):
            assert (said.status, said.json) == (200, first)
        other = await admin.ask("POST", place, json=prompt("Pay more."), headers=headers)
        assert (other.status, other.json["code"]) == (422, "key_reused")
        assert "use another key" in other.json["detail"]
        asked = await admin.asked("a")
        answers, yes = f"/v1/sessions/a/requests/{asked['request_id']}", {"digest": asked["digest"]}
        await admin.post(answers, {"decision": "approve", **yes}, "yes")
        await admin.post(answers, {"decision": "approve", **yes}, "yes")
        wider = {"decision": "approve", "scope": "session", **yes}
        said = await admin.ask("POST", answers, json=wider, headers={"Idempotency-Key": "yes"})
        assert (said.status, said.json["code"]) == (422, "key_reused")
        refused = await admin.ask("POST", place, json={"type": "prompt.received"}, headers={"Idempotency-Key": "n"})
        assert refused.status == 422
        await admin.post(place, prompt("What was refused is not remembered."), "n")
    # Nobody remembers for what: it is acknowledged, and so are true repeats, whatever came in between.
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        for text in ("Pay.", "Pay more.", "Pay."):
            assert await admin.post(place, prompt(text), "k") == first


async def test_a_key_of_a_session_that_was_removed_is_not_one_of_the_next_of_its_name(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        for title in ("one", "two"):
            await admin.begin("a")
            change = {"type": "change.received", "change": {"what": "title", "title": title}}
            await admin.post("/v1/sessions/a/commands", change, "k")
            assert (await admin.ask("DELETE", "/v1/sessions/a")).status == 204


async def test_a_driver_puts_no_tool_of_its_own_in_the_place_of_the_authors(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin, driver = running.client(), running.client("drive", name="dan")
        await admin.begin("a")
        gone = {"type": "unmount.received", "tools": ["pay"]}
        said = await driver.ask("POST", "/v1/sessions/a/commands", json=gone)
        assert (said.status, said.json["code"]) == (403, "role")
        await admin.post("/v1/sessions/a/commands", gone)
        mount = {
            "type": "mount.received",
            "tools": [{"name": "pay"}],
            "body": {"tools": [{"name": "pay", "description": "Pays.", "parameters": {"type": "object"}}]},
        }
        said = await driver.ask("POST", "/v1/sessions/a/commands", json=mount)
        assert (said.status, said.json["code"]) == (409, "collision")


async def test_a_driver_takes_away_the_tools_of_clients_and_none_of_the_authors(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin, driver = running.client(), running.client("drive", name="dan")
        await admin.begin("a")
        own = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}
        mount = {"type": "mount.received", "tools": [{"name": "look"}], "body": {"tools": [own]}}
        await driver.post("/v1/sessions/a/commands", mount)
        for tools, status in ((["look", "pay"], 403), (["pay"], 403), (["look"], 200)):
            command = {"type": "unmount.received", "tools": tools, "force": True}
            assert (await driver.ask("POST", "/v1/sessions/a/commands", json=command)).status == status, tools
        kinds = [one["event"]["type"] for one in await admin.records("a")]
        assert kinds.count("unmount.received") == 1


async def test_a_schema_that_stands_for_more_than_can_be_checked_is_refused_at_once(tmp_path):
    levels = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}
    schema = {"type": "object", "$ref": "#/$defs/d0", "$defs": {**levels, "d60": {}}}
    mount = {
        "type": "mount.received",
        "tools": [{"name": "bomb"}],
        "body": {"tools": [{"name": "bomb", "description": "Waits.", "parameters": schema}]},
    }
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        await admin.begin("a")
        said = await admin.ask("POST", "/v1/sessions/a/commands", json=mount)
        assert "refer to each other" in said.json["detail"]


async def test_a_number_that_no_log_can_hold_is_refused_by_its_place(tmp_path):
    text = {"name": "slow", "description": "Waits.", "parameters": {"type": "object"}}
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        await admin.begin("a")
        statuses = []
        for timeout_ms in (10**30, 2**63, 60_000):
            mount = {
                "type": "mount.received",
                "tools": [{"name": "slow", "timeout_ms": timeout_ms}],
                "body": {"tools": [text]},
            }
            said = await admin.ask("POST", "/v1/sessions/a/commands", json=mount)
            statuses.append((said.status, said.json.get("path")))
        assert statuses == [(422, "$.tools[0].timeout_ms"), (422, "$.tools[0].timeout_ms"), (200, None)]


async def test_new_texts_of_prompts_name_no_files(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        await admin.begin("a")
        edit = {"content": [{"type": "text", "text": "x"}], "attachments": [{"type": "file", "path": "/etc/shadow"}]}
        said = await admin.ask(
            "POST",
            "/v1/sessions/a/commands",
            json={"type": "queue.edited", "order": [], "body": {"edits": {"k": edit}}},
        )
        assert (said.status, said.json["path"]) == (422, "$.body.edits.k.attachments")


async def test_a_new_session_has_no_longer_title_and_no_more_metadata_than_it_could_be_given_later(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        begun = await admin.ask(
            "POST", "/v1/sessions", json={"agent": "clerk", "session_id": "a", "title": "t" * 9_000}
        )
        assert (begun.status, begun.json["session"]["title"]) == (201, "t" * 200)
        await admin.post(
            "/v1/sessions/a/commands", {"type": "change.received", "change": {"what": "title", "title": "u" * 9_000}}
        )
        assert (await admin.get("/v1/sessions/a"))["session"]["title"] == "u" * 200
        for more in ({str(number): "x" for number in range(129)}, {"name": "x" * 5_000}):
            said = await admin.ask("POST", "/v1/sessions", json={"agent": "clerk", "session_id": "b", "metadata": more})
            assert (said.status, said.code) == (400, "usage")
            assert "metadata" in said.json["detail"]
        assert [row["session"] for row in (await admin.get("/v1/sessions"))["sessions"]] == ["a"]


async def test_a_page_of_large_records_ends_early_and_its_cursor_goes_on(tmp_path):
    async with serving(tmp_path, [clerk(ask=False)], limits=Limits(page_bytes=30_000)) as running:
        admin = running.client()
        await admin.begin("a")
        for number in range(4):
            words = {"content": [{"type": "text", "text": str(number) * 20_000}]}
            await admin.post("/v1/sessions/a/commands", {"type": "prompt.received", "body": words})
            await admin.get("/v1/sessions/a/result?wait_s=60")
        pages, cursor, more = 0, "", True
        found: list[int] = []
        while more:
            said = await admin.ask("GET", f"/v1/sessions/a/records?limit=1000&after={cursor}")
            page = said.json
            assert len(said.body) < 60_000
            found += [record["seq"] for record in page["records"]]
            cursor, more, pages = page["cursor"], page["more"], pages + 1
        assert found == list(range(1, (await admin.get("/v1/sessions/a"))["session"]["seq"] + 1))
        assert pages >= 3


async def test_a_fork_to_an_id_that_is_taken_is_told_what_has_it(tmp_path):
    async with serving(tmp_path, [clerk(ask=False)]) as running:
        admin = running.client()
        for name in ("a", "b"):
            await admin.begin(name)
        await admin.post("/v1/sessions/a/fork", {"session_id": "f"})
        for source, taken, why in (("b", "f", "is a fork of 'a' at record 1"), ("a", "b", "is no fork")):
            said = await admin.ask("POST", f"/v1/sessions/{source}/fork", json={"session_id": taken})
            assert (said.status, said.code) == (400, "usage")
            assert said.json["detail"] == f"session {taken!r} exists already and {why}: choose another id"
