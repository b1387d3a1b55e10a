"""What runs on a cluster, as options of the command line."""

import click
import pytest
from berth_cli.program import program_body

NOTHING = {
    "kind": None,
    "image": None,
    "command_line": None,
    "args_line": None,
    "ports": (),
    "no_ports": False,
    "shm": None,
    "cluster": None,
    "pool": None,
    "network": None,
    "volumes": (),
    "no_volumes": False,
    "credentials": (),
    "needs": (),
}


def test_a_command_line_is_split_as_a_shell_would_and_ports_have_names():
    body = program_body(
        {
            **NOTHING,
            "image": "team/app:1",
            "command_line": "python -m app --title 'a b'",
            "ports": ("7860", "9000:admin", "5432:db:private"),
            "shm": "8G",
        }
    )
    assert body["command"] == ["python", "-m", "app", "--title", "a b"]
    assert body["ports"] == [
        {"port": 7860, "name": "", "web": True},
        {"port": 9000, "name": "admin", "web": True},
        {"port": 5432, "name": "db", "web": False},
    ]
    assert body["shm_mib"] == 8192


def test_what_was_not_said_is_not_sent():
    assert not any(program_body(NOTHING).values())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("command_line", "sh -c 'open"),
        ("ports", ("http",)),
        ("ports", ("80:a:b:c",)),
        ("shm", "8X"),
        ("shm", "-1G"),
    ],
)
def test_what_cannot_be_read_is_named(name, value):
    with pytest.raises(click.BadParameter):
        program_body({**NOTHING, name: value})


@pytest.mark.parametrize(("name", "value"), [("ports", "7860"), ("volumes", "data")])
def test_some_and_none_of_them_is_wrong_usage(name, value):
    assert program_body({**NOTHING, f"no_{name}": True})[name] == []
    with pytest.raises(click.UsageError):
        program_body({**NOTHING, name: (value,), f"no_{name}": True})


@pytest.mark.parametrize(
    ("text", "mib"), [("512M", 512), ("1Gi", 1024), ("1.5g", 1536), ("64", 64)]
)
def test_sizes_are_read_as_people_write_them(text, mib):
    assert program_body({**NOTHING, "shm": text})["shm_mib"] == mib
