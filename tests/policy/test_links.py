"""What a rule says of a place holds by whatever name it is reached: through links of the session's folder as well."""

from __future__ import annotations

import pathlib

import pytest

import windlass
from windlass.tools.link_targets import LINKS_MAX, led_to

READING = [
    ("read", {"path": "link/key"}),
    ("read", {"path": "file"}),
    ("read", {"path": "public/up/key"}),
    ("read", {"path": "chain"}),
    ("grep", {"pattern": "k", "path": "link"}),
    ("grep", {"pattern": "k", "path": "secrets"}),
    ("list", {"path": "absolute"}),
    ("shell", {"command": "cat link/key"}),
    ("shell", {"command": "cat < file"}),
    ("shell", {"command": "grep -r k absolute"}),
    ("shell", {"command": "grep -r k secrets"}),
    ("shell", {"command": "cd public && cat up/key"}),
]


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with secrets in it, and links that lead there and elsewhere."""
    made = tmp_path / "work"
    for name in ("secrets", "public", "src"):
        (made / name).mkdir(parents=True)
    (made / "secrets" / "key").write_text("k")
    (made / "public" / "plain").write_text("p")
    for name, target in (
        ("link", "secrets"),
        ("file", "secrets/key"),
        ("public/up", "../secrets"),
        ("chain", "link/key"),
        ("absolute", str(made / "secrets")),
        ("src/out", "/etc/hosts"),
        ("round", "round"),
        ("src/beside", "../public/plain"),
    ):
        (made / name).symlink_to(target)
    return made


def outlook(policy: windlass.Policy, tool: str, args: dict[str, str], folder: pathlib.Path) -> str:
    return windlass.explain(policy, tool, args, workspace=folder).splitlines()[0].rpartition("}: ")[2].split()[0]


@pytest.mark.parametrize("glob", ["secrets/", "secrets/**"])
@pytest.mark.parametrize(("tool", "args"), READING, ids=str)
def test_a_denial_of_a_folder_reaches_it_through_links(folder, tool, args, glob):
    assert outlook(windlass.Policy([windlass.deny(paths=[glob])], default="allow"), tool, args, folder) == "denied"
    assert outlook(windlass.Policy(default="allow"), tool, args, folder) == "allowed"


@pytest.mark.parametrize("glob", ["secrets/", "secrets/**"])
@pytest.mark.parametrize(("tool", "args"), READING[7:], ids=str)
def test_what_no_model_may_see_is_not_shown_by_a_command_that_names_it_by_a_link(folder, tool, args, glob):
    assert outlook(windlass.Policy(default="allow", exclude=[glob]), tool, args, folder) == "denied"


def test_a_permission_does_not_reach_what_a_link_leads_to(folder):
    policy = windlass.Policy([windlass.allow(paths=["src/**"])], default="ask")
    assert outlook(policy, "shell", {"command": "cat src/beside"}, folder) == "asked"
    assert outlook(policy, "shell", {"command": "cat src/out"}, folder) == "asked"
    both = windlass.Policy([windlass.allow(paths=["src/**", "public/**"])], default="ask")
    assert outlook(both, "shell", {"command": "cat src/beside"}, folder) == "allowed"


def test_what_is_written_through_a_link_is_written_where_it_leads(folder):
    policy = windlass.Policy([windlass.allow("shell", paths=["**", "/**"], writes=["src/**"])], default="ask")
    assert outlook(policy, "shell", {"command": "echo x > src/new"}, folder) == "allowed"
    assert outlook(policy, "shell", {"command": "echo x > src/out"}, folder) == "asked"


def test_links_are_followed_within_the_folder_and_no_further(folder, tmp_path):
    """What lies outside is not even looked at: `tmp_path/l` is a link as well."""
    (tmp_path / "l").symlink_to("work/secrets")
    (folder / "away").symlink_to(tmp_path / "l")
    told = {
        name: led_to(str(folder / name), str(folder)) for name in ("away/key", "src/out", "round", "src", "src/../x")
    }
    assert told == {
        "away/key": str(tmp_path / "l" / "key"),
        "src/out": "/etc/hosts",
        "round": None,
        "src": None,
        "src/../x": None,
    }
    assert led_to("/etc/hosts", str(folder)) is None
    assert led_to(str(folder) + "-beside/x", str(folder)) is None
    assert led_to("x", None) is None


def test_a_chain_of_links_is_followed_to_its_end_and_an_endless_one_is_given_up(folder):
    for at in range(LINKS_MAX - 1):
        (folder / f"l{at}").symlink_to(f"l{at + 1}")
    (folder / f"l{LINKS_MAX - 1}").symlink_to("secrets/key")
    assert led_to(str(folder / "l0"), str(folder)) == str(folder / "secrets" / "key")
    (folder / "more").symlink_to("l0")
    assert led_to(str(folder / "more"), str(folder)) is None
