"""What the file tools tell a model: numbered lines, pages, sorted names, errors with a way on; and how agents get them."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest

import windlass
from windlass.events.values.blocks import plain_text
from windlass.events.values.items import ResultItem
from windlass.testing.scripted import ScriptedModel, call
from windlass.tools.context import ToolContext
from windlass.tools.files import FILE_TOOLS, FileLimits, file_tools
from windlass.tools.files.glob_patterns import Glob, choices
from windlass.tools.files.ignores import Ignores, parsed

from .bench import Bench


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


# --- read ---


def test_a_small_file_is_shown_whole_with_line_numbers(bench):
    bench.write("a.txt", "one\n\nthree\n")
    assert bench.call("read", path="a.txt") == "[a.txt, 3 lines]\n     1\tone\n     2\t\n     3\tthree"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "a.txt is empty"),
        (b"x", "[a.txt, 1 line]\n     1\tx"),
        (b"\n", "[a.txt, 1 line]\n     1\t"),
        (b"x\r\ny\r\n", "[a.txt, 2 lines]\n     1\tx\n     2\ty"),
        (b"\xef\xbb\xbfx\n", "[a.txt, 1 line]\n     1\tx"),
        (b"caf\xe9\n", "[a.txt, 1 line]\n     1\tcaf\ufffd"),
        ("é\u2028ü\n".encode(), "[a.txt, 1 line]\n     1\té\u2028ü"),
        (b"a\x0cb\x0bc\n", "[a.txt, 1 line]\n     1\ta\x0cb\x0bc"),
        (b"MZ\x00\x01", "a.txt is not text: binary, 4 bytes"),
        (b"\x89PNG\r\n\x1a\n1234", "a.txt is not text: image/png, 12 bytes"),
        (b"\xff\xfeh\x00i\x00", "a.txt is not text: UTF-16 text, 6 bytes"),
    ],
)
def test_files_of_every_kind_are_told_of(bench, content, told):
    bench.write("a.txt", content)
    assert bench.call("read", path="a.txt") == told


def test_pages_follow_one_another_without_gap_or_overlap(bench):
    lines = [f"line {number}" for number in range(1, 26)]
    bench.write("a.txt", "\n".join(lines))
    seen, offset = [], 1
    while offset:
        head, *page = bench.call("read", path="a.txt", offset=offset, limit=10).splitlines()
        seen += [line.partition("\t")[2] for line in page]
        _, _, onward = head.rstrip("]").partition("offset=")
        offset = int(onward) if onward else 0
    assert seen == lines
    assert head == "[a.txt, lines 21 to 25 of 25]"


@pytest.mark.parametrize("ending", ["", "\n"])
@pytest.mark.parametrize("count", [1, 2, 9, 10, 11, 20])
def test_the_number_of_lines_is_right_wherever_the_page_ends(bench, count, ending):
    bench.write("a.txt", "\n".join("x" * count) + ending)
    first = bench.call("read", path="a.txt", limit=10).splitlines()[0]
    assert (
        first
        == {
            1: "[a.txt, 1 line]",
            2: "[a.txt, 2 lines]",
            9: "[a.txt, 9 lines]",
            10: "[a.txt, 10 lines]",
            11: "[a.txt, lines 1 to 10 of 11; go on with offset=11]",
            20: "[a.txt, lines 1 to 10 of 20; go on with offset=11]",
        }[count]
    )
    assert bench.call("read", path="a.txt", offset=count).splitlines()[-1] == f"{count:>6}\tx"
    assert bench.refused("read", path="a.txt", offset=count + 1, limit=1, column=1).code == "no_such_line"


def test_lines_are_found_across_the_pieces_in_which_a_file_is_read(bench):
    lines = [f"{number} " + "ü" * (number % 700) for number in range(2_000)]
    bench.write("a.txt", "\n".join(lines))
    for number in (0, 400, 777, 1_500, 1_999):
        said = bench.call("read", path="a.txt", offset=number + 1, limit=1)
        assert said.splitlines()[1] == f"{number + 1:>6}\t{lines[number]}"


def test_a_long_line_is_cut_and_says_how_to_read_on(bench):
    bench.write("a.txt", "x" * 1_500 + "\nshort\n")
    assert bench.call("read", path="a.txt").splitlines() == [
        "[a.txt, 2 lines]",
        "     1\t" + "x" * 1_000 + " … [500 more characters]",
        "     2\tshort",
    ]
    assert bench.call("read", path="a.txt", limit=1, column=1_001).splitlines()[1] == (
        "     1\t[1,000 characters] … " + "x" * 500
    )


def test_errors_say_what_is_there_instead(bench):
    bench.write("src/settings.py")
    assert bench.refused("read", path="src/setings.py").hint == "did you mean src/settings.py?"
    assert (
        bench.refused("read", path="lib/settings.py").hint == "nor is there lib: use list or glob to see what is there"
    )
    assert bench.refused("read", path="src").hint == "use list to see what is in it"
    assert bench.refused("list", path="src/settings.py").hint == "use read to see its content"
    assert bench.refused("read", path="src/settings.py/x").hint == "use list on the directory above it"


# --- list ---


def test_a_directory_is_listed_sorted_with_sizes_and_links(bench):
    bench.write("b.txt", "xyz")
    bench.write("a/inner/deep.txt", "1")
    (bench.root / "c").symlink_to("b.txt")
    assert bench.call("list") == "a/\nb.txt (3 bytes)\nc -> b.txt"
    assert bench.call("list", depth=3) == "a/\na/inner/\na/inner/deep.txt (1 byte)\nb.txt (3 bytes)\nc -> b.txt"
    assert bench.call("list", path="a") == "a/inner/"
    assert bench.call("list", path="a/inner/") == "a/inner/deep.txt (1 byte)"


def test_an_empty_directory_says_so(bench):
    (bench.root / "empty").mkdir()
    assert bench.call("list", path="empty") == "empty is empty"


def test_a_list_has_pages(bench):
    for number in range(7):
        bench.write(f"f{number}")
    pages = [bench.call("list", offset=offset, limit=3) for offset in (0, 3, 6, 9)]
    assert pages[0] == (
        "f0 (0 bytes)\nf1 (0 bytes)\nf2 (0 bytes)\n[3 entries shown, there are more: go on with offset=3]"
    )
    assert pages[1].splitlines()[0] == "f3 (0 bytes)"
    assert pages[2] == "f6 (0 bytes)"
    assert pages[3] == "[there are only 7 entries]"


def test_noise_is_left_out_by_name_and_can_be_asked_for(bench):
    bench.write(".git/config", "token")
    bench.write("node_modules/x/index.js")
    bench.write("main.py", "token")
    assert bench.call("list") == ("main.py (5 bytes)\n[left out as noise: .git/, node_modules/; all=true lists it too]")
    assert bench.call("list", all=True) == ".git/\nmain.py (5 bytes)\nnode_modules/"
    assert bench.call("glob", pattern="**/*") == "main.py"
    assert bench.call("grep", pattern="token", files_only=True) == "main.py"
    assert bench.call("glob", pattern="*", path="node_modules/x") == "node_modules/x/index.js"
    assert bench.call("grep", pattern="token", path=".git", files_only=True) == ".git/config"
    assert "token" in bench.call("read", path=".git/config")


# --- glob ---


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["top.py"]),
        ("**/*.py", ["src/a.py", "src/deep/b.py", "top.py"]),
        ("src/*.py", ["src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/deep/b.py"]),
        ("src/**", ["src/a.py", "src/c.js", "src/deep/b.py"]),
        ("**/deep/*", ["src/deep/b.py"]),
        ("**/[ab].py", ["src/a.py", "src/deep/b.py"]),
        ("**/*.{js,py}", ["src/a.py", "src/c.js", "src/deep/b.py", "top.py"]),
        ("./src/?.js", ["src/c.js"]),
        ("src/", ["src/"]),
        ("**/", ["src/", "src/deep/"]),
        ("TOP.PY", []),
    ],
)
def test_a_glob_means_what_it_means_elsewhere(bench, pattern, found):
    for path in ("top.py", "src/a.py", "src/c.js", "src/deep/b.py"):
        bench.write(path)
    said = bench.call("glob", pattern=pattern)
    assert [line for line in said.splitlines() if not line.startswith(("[", "no path"))] == found


def test_a_glob_that_finds_nothing_gives_advice(bench):
    bench.write("src/a.py")
    assert bench.call("glob", pattern="*.py") == (
        "no path matches '*.py'\n[it was tried in this directory only: '**/*.py' looks in all below]"
    )


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "src/../../*"])
def test_a_glob_that_leads_out_is_refused(bench, pattern):
    assert bench.refused("glob", pattern=pattern).code == "outside_root"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a", ["a"]),
        ("a{b,c}d", ["abd", "acd"]),
        ("{a,b{c,d}}", ["a", "bc", "bd"]),
        ("a{b}c", ["a{b}c"]),
        ("{a,}", ["", "a"]),
        ("{{a,b}", ["{a", "{b"]),
    ],
)
def test_braces_stand_for_alternatives(text, meant):
    assert choices(text) == meant


def test_a_walk_only_enters_directories_that_can_hold_a_match():
    glob = Glob("src/*/x.py")
    assert [glob.leads_on(names) for names in (["src"], ["src", "a"], ["src", "a", "b"], ["lib"])] == [
        True,
        True,
        False,
        False,
    ]


# --- grep ---


def test_matches_stand_under_their_file_with_their_line_numbers(bench):
    bench.write("a.py", "import os\n\ndef run():\n    pass\n")
    bench.write("b/c.py", "def run_all():\r\n    run()\r\n")
    assert bench.call("grep", pattern=r"run\w*\(") == (
        "a.py\n     3: def run():\nb/c.py\n     1: def run_all():\n     2:     run()"
    )


def test_lines_around_a_match_are_shown_once(bench):
    bench.write("a.txt", "\n".join(["a", "b", "HIT", "c", "HIT", "d", "e", "f", "g", "HIT"]))
    assert bench.call("grep", pattern="HIT", context=1) == (
        "a.txt\n     2- b\n     3: HIT\n     4- c\n     5: HIT\n     6- d\n  --\n     9- g\n    10: HIT"
    )


@pytest.mark.parametrize(
    ("pattern", "more", "lines"),
    [
        ("^def ", {}, [1]),
        (r"\bclass\b", {}, [3]),
        ("CLASS", {}, []),
        ("CLASS", {"ignore_case": True}, [3]),
        ("(?i)CLASS", {}, [3]),
        ("end$", {}, [5]),
        (r"\Aclass", {}, [3]),
        (r"a\s+b", {}, []),
        ("é", {}, [6]),
        (r"\d{3}", {}, [7]),
        ("^$", {}, [2]),
    ],
)
def test_expressions_are_judged_line_by_line(bench, pattern, more, lines):
    bench.write("a.txt", "def x\n\nclass A\na\nb end\ncafé\n123\n")
    said = bench.call("grep", pattern=pattern, **more)
    assert [int(line[:6]) for line in said.splitlines() if line[:6].strip().isdigit()] == lines


def test_a_search_can_be_narrowed_by_path_and_glob(bench):
    for path in ("a.py", "a.js", "lib/a.py", "lib/deep/b.py"):
        bench.write(path, "hit")

    def files(**more):
        return bench.call("grep", pattern="hit", files_only=True, **more).splitlines()

    assert files(glob="*.py") == ["a.py", "lib/a.py", "lib/deep/b.py"]
    assert files(glob="lib/*.py") == ["lib/a.py"]
    assert files(glob="*.{js,ts}") == ["a.js"]
    assert files(path="lib") == ["lib/a.py", "lib/deep/b.py"]
    assert files(path="lib", glob="deep/*") == ["lib/deep/b.py"]
    assert files(path="lib/a.py") == ["lib/a.py"]


def test_a_search_has_pages(bench):
    bench.write("a.txt", "\n".join(f"hit {number}" for number in range(5)))
    bench.write("b.txt", "hit 5\nhit 6")
    first = bench.call("grep", pattern="hit", limit=3)
    assert first.splitlines()[-1] == "[3 matches shown, there are more: go on with offset=3]"
    assert bench.call("grep", pattern="hit", offset=3) == (
        "a.txt\n     4: hit 3\n     5: hit 4\nb.txt\n     1: hit 5\n     2: hit 6"
    )


def test_a_search_without_a_match_says_what_it_looked_at(bench):
    bench.write("a.txt", "x")
    bench.write("b.bin", b"\0hit")
    bench.write("__pycache__/c.txt", "hit")
    assert bench.call("grep", pattern="hit") == (
        "no line matches in 2 files\n[1 file passed over, not text]\n"
        "[left out as noise: __pycache__/; name its path to look there]"
    )


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [("foo(bar", "missing )"), ("a(?=b)", "look-around"), (r"(a)\1", "back-references"), ("*", "nothing to repeat")],
)
def test_a_pattern_that_cannot_be_used_is_explained(bench, pattern, reason):
    error = bench.refused("grep", pattern=pattern)
    assert reason in error.message
    assert error.hint is not None
    assert error.hint.startswith("to find this very text, escape it: ")


def test_the_escaped_form_that_an_error_offers_finds_the_text(bench):
    text = "foo(bar[*"
    bench.write("a.txt", text)
    offered = str(bench.refused("grep", pattern=text).hint).removeprefix("to find this very text, escape it: ")
    assert bench.call("grep", pattern=offered, files_only=True) == "a.txt"


# --- what is ignored ---


RULES = """
# a comment
*.log
!keep.log
/only-here
build/
docs/*.html
**/generated/**
\\#odd
a[bc]d
"""


@pytest.mark.parametrize(
    ("path", "folder", "ignored"),
    [
        ("x.log", False, True),
        ("deep/x.log", False, True),
        ("deep/keep.log", False, False),
        ("only-here", False, True),
        ("deep/only-here", False, False),
        ("build", True, True),
        ("build", False, False),
        ("deep/build", True, True),
        ("docs/a.html", False, True),
        ("deep/docs/a.html", False, False),
        ("x/generated/y/z", False, True),
        ("#odd", False, True),
        ("abd", False, True),
        ("aed", False, False),
    ],
)
def test_rules_mean_what_they_mean_to_git(tmp_path, path, folder, ignored):
    ignores = Ignores(frozenset(), files=True, rules=parsed(RULES)[0])
    assert ignores.covers(path.split("/"), folder=folder) is ignored
    if shutil.which("git") is None:
        return
    (tmp_path / ".gitignore").write_text(RULES)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    made = tmp_path / path
    made.parent.mkdir(parents=True, exist_ok=True)
    made.mkdir() if folder else made.touch()
    asked = subprocess.run(["git", "-C", tmp_path, "check-ignore", "--quiet", path], check=False)
    assert (asked.returncode == 0) is ignored, "git itself says otherwise"


def test_the_nearest_rules_decide(bench):
    bench.write(".gitignore", "*.txt\nsecret/\n")
    bench.write("sub/.gitignore", "!wanted.txt\n/local\n")
    for path in ("a.txt", "sub/a.txt", "sub/wanted.txt", "sub/local", "local", "secret/x.py"):
        bench.write(path, "hit")
    found = [".gitignore", "local", "sub/.gitignore", "sub/wanted.txt"]
    assert bench.call("glob", pattern="**").splitlines() == found
    assert bench.call("glob", pattern="**", path="sub").splitlines() == found[2:]
    assert bench.call("glob", pattern="**", path="secret") == "secret/x.py"
    assert bench.call("grep", pattern="hit", files_only=True).splitlines() == ["local", "sub/wanted.txt"]


def test_what_is_ignored_can_be_configured(tmp_path):
    bench = Bench(tmp_path, ignored={"skipped"}, gitignore=False)
    bench.write(".gitignore", "*")
    bench.write("skipped/a")
    bench.write("node_modules/b")
    assert bench.call("glob", pattern="**").splitlines() == [".gitignore", "node_modules/b"]


# --- how agents get them ---


async def answers(agent, model):
    await agent.run("go")
    return [plain_text(item.content) for item in model.requests[-1].items if isinstance(item, ResultItem)]


async def test_agents_name_them_and_read_beneath_the_current_directory(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("hello\n")
    script: list[Any] = [
        [call("list")],
        [call("read", path="a.txt")],
        [call("glob", pattern="*")],
        [call("grep", pattern="l+")],
        "ok",
    ]
    model = ScriptedModel(script)
    agent = windlass.Agent("reader", model=model, tools=[*FILE_TOOLS], policy=windlass.READ_ONLY)
    monkeypatch.chdir(tmp_path)
    assert agent.toolset.names == FILE_TOOLS
    monkeypatch.chdir("/")
    assert await answers(agent, model) == [
        "a.txt (6 bytes)",
        "[a.txt, 1 line]\n     1\thello",
        "a.txt",
        "a.txt\n     1: hello",
    ]


async def test_errors_reach_the_model_with_their_hint(tmp_path):
    (tmp_path / "a.txt").write_text("hello\n")
    model = ScriptedModel([[call("read", path="b.txt"), call("read", path="../x"), call("read")], "ok"])
    agent = windlass.Agent("reader", model=model, tools=file_tools(tmp_path, ["read"]))
    told = await answers(agent, model)
    assert told[0] == "there is no b.txt\ndid you mean a.txt?"
    assert told[1].startswith("../x leads out of the root\n")
    assert "path: is required" in told[2]


def test_they_are_read_only_and_built_in(tmp_path):
    for tool in file_tools(tmp_path):
        spec = tool.spec
        assert (spec.contract, spec.traits, spec.kind, spec.source) == ("pure", ("read",), "read", "builtin")
        assert len(tool.description) > 50
        assert "ctx" not in tool.schema.parameters["properties"]


def test_one_root_serves_all_tools_of_an_agent_and_another_root_stands_beside_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    agent = windlass.Agent("reader", model=ScriptedModel([]), tools=["grep", "todo", "read"])
    assert agent.toolset.names == ("grep", "todo", "read")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here.txt").write_text("found here")
    (tmp_path / "elsewhere" / "there.txt").write_text("found there")
    monkeypatch.chdir(tmp_path / "elsewhere")  # the root is the one of when the agent was made, for all of them
    context = ToolContext(session="s", call_id="c")
    tools: dict[str, Any] = {tool.name: tool for tool in agent.toolset}
    assert "found here" in tools["read"](context, path="here.txt")
    assert "here.txt" in tools["grep"](context, pattern="found here")
    with pytest.raises(windlass.UsageError, match="two tools are called 'read'"):
        _ = windlass.Agent("x", model=ScriptedModel([]), tools=["read", *file_tools(tmp_path, ["read"])]).toolset


def test_the_digest_says_nothing_of_where_the_root_is(tmp_path):
    (tmp_path / "other").mkdir()
    one, other = file_tools(tmp_path, ["read"]), file_tools(tmp_path / "other", ["read"])
    assert one[0].spec.digest == other[0].spec.digest


def test_unknown_names_are_refused_with_the_known_ones(tmp_path):
    with pytest.raises(windlass.UsageError, match="no file tool 'rite': there are list, read, glob, grep, write, edit"):
        file_tools(tmp_path, ["read", "rite"])
    assert [tool.name for tool in file_tools(tmp_path, "grep")] == ["grep"]


def test_bounds_are_settings(tmp_path):
    bench = Bench(tmp_path, limits=FileLimits(lines=2, line_chars=3, output_bytes=200))
    bench.write("a.txt", "abcdef\nb\nc\n")
    assert bench.call("read", path="a.txt") == (
        "[a.txt, lines 1 to 2 of 3; go on with offset=3]\n     1\tabc … [3 more characters]\n     2\tb"
    )
    assert bench.call("grep", pattern=".").splitlines()[-1] == "[2 matches shown, there are more: go on with offset=2]"


async def test_tools_by_name_work_in_the_folder_of_the_session(tmp_path, monkeypatch):
    elsewhere, here = tmp_path / "elsewhere", tmp_path / "here"
    for folder, text in ((elsewhere, "not this one"), (here, "the session's own")):
        folder.mkdir()
        (folder / "note.txt").write_text(text)
    monkeypatch.chdir(elsewhere)
    calls = [call("read", path="note.txt"), call("write", path="made.txt", content="made\n")]
    agent = windlass.Agent(
        "a", model=ScriptedModel([calls, "done", calls[:1], "done"]), tools=["read", "write"], policy=windlass.ALLOW_ALL
    )
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s", workspace=here)
        await session.prompt("go")
        assert (await session.result()).ok
        plain = await rt.session(agent, "without a folder")
        await plain.prompt("go")
        assert (await plain.result()).ok
    model: Any = agent.model
    requests = model.requests
    assert "the session's own" in str(requests[1].items)
    assert "not this one" in str(requests[3].items)
    assert [path.name for path in sorted(here.iterdir())] == ["made.txt", "note.txt"]
    assert not (elsewhere / "made.txt").exists()
