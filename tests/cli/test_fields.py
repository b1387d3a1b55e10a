"""Options of the command line are those of the portal's table of fields."""

from __future__ import annotations

from typing import Any

import click
import pytest
from berth_cli import fields
from click.testing import CliRunner

from tools.cli_fields import FIELDS, written
from work.kinds import kinds

TABLE = [
    {"name": "mode", "type": "choice", "choices": ["copy", "sync"]},
    {"name": "fast", "type": "flag"},
    {"name": "cpu_milli", "type": "cores", "option": "cpu", "low": 100, "high": 4000},
    {"name": "memory_mib", "type": "size", "option": "memory"},
    {"name": "retries", "type": "count", "low": 0, "high": 20},
    {"name": "limit", "type": "minutes", "high": 60},
    {"name": "args", "type": "words"},
    {"name": "volumes", "type": "names", "option": "volume", "has_usual": True},
    {"name": "ports", "type": "ports", "option": "port", "has_usual": True},
    {"name": "env", "type": "variables"},
    {"name": "gpu_flavor", "type": "devices", "option": "gpu"},
    {"name": "pool", "type": "text"},
]
ASKED = {
    "--mode sync": {"mode": "sync"},
    "--fast": {"fast": True},
    "--no-fast": {"fast": False},
    "--cpu 1.5": {"cpu_milli": 1500},
    "--memory 2G": {"memory_mib": 2048},
    "--memory 512M": {"memory_mib": 512},
    "--memory 1Gi": {"memory_mib": 1024},
    "--memory 1.5g": {"memory_mib": 1536},
    "--memory 64": {"memory_mib": 64},
    "--retries 0": {"retries": 0},
    "--limit 0": {"limit": 0},
    "--args ''": {"args": []},
    "--args '--title \"a b\"'": {"args": ["--title", "a b"]},
    "--volume data:ro --volume set": {"volumes": ["data:ro", "set"]},
    "--no-volumes": {"volumes": []},
    "--port 80 --port 9000:admin --port 5432:db:private": {
        "ports": [
            {"port": 80, "name": "", "web": True},
            {"port": 9000, "name": "admin", "web": True},
            {"port": 5432, "name": "db", "web": False},
        ]
    },
    "--no-ports": {"ports": []},
    "--env A=1=2 --env B=": {"env": {"A": "1=2", "B": ""}},
    "--gpu h100 --gpu l40s": {"gpu_flavor": "h100,l40s"},
    "--gpu any": {"gpu_flavor": ""},
    "--pool ''": {"pool": ""},
    "": {},
}
REFUSED = {
    "--cpu 5": "not in the range",
    "--retries 21": "not in the range",
    "--memory much": "not a size",
    "--memory 8X": "not a size",
    "--memory=-1G": "not a size",
    "--port web": "not PORT",
    "--port 80:a:b:c": "not PORT",
    "--env A": "not NAME=VALUE",
    "--args '\"a'": "quotation mark",
    "--volume data --no-volumes": "not both",
    "--port 80 --no-ports": "not both",
    "--mode move": "not one of",
}


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command with options of every type; return how it ended and the body it made."""
    usual = {"label": "Thing", "help": "", "metavar": "X"}
    table = [{**usual, "option": field["name"], **field} for field in TABLE]
    monkeypatch.setattr(fields, "fields_of", lambda _kind: table)
    bodies: list[dict[str, Any]] = []

    @click.command()
    @fields.field_options("any")
    def command(**said: Any) -> None:
        bodies.append(fields.field_body("any", said))

    def run(words: str) -> tuple[Any, list[dict[str, Any]]]:
        return CliRunner().invoke(command, words), bodies

    return run


def test_the_committed_file_is_what_the_tables_say() -> None:
    assert FIELDS.read_text() == written(), "run `make schema` and commit fields.json"


@pytest.mark.parametrize("kind", [kind.word for kind in kinds()])
def test_every_field_of_every_kind_is_an_option_with_words(kind: str) -> None:
    @click.command()
    @fields.field_options(kind)
    def command(**_said: Any) -> None: ...

    made = {param.name: param for param in command.params}
    for field in fields.fields_of(kind):
        assert f"--{field['option']}" in made[field["name"]].opts
        assert made[field["name"]].help
    assert len({opt for param in command.params for opt in param.opts}) == len(command.params)


@pytest.mark.parametrize("words", ASKED)
def test_what_is_said_becomes_what_the_api_takes(words: str, say: Any) -> None:
    ended, bodies = say(words)
    assert ended.exit_code == 0, ended.output
    assert bodies == [ASKED[words]]


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_no_value_is_refused_with_a_sentence(words: str, say: Any) -> None:
    ended, bodies = say(words)
    assert (ended.exit_code, bodies) == (2, [])
    assert REFUSED[words] in ended.output
