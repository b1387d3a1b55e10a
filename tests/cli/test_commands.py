"""What holds for every command: its help, what a list reads, and names that a shell completes."""

from __future__ import annotations

import http.server
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import unicodedata
from collections.abc import Iterator

import click
import pytest
from berth_cli.main import cli
from click.shell_completion import ShellComplete

from notebooks.models import Workspace
from tests.support.portal import ROOT

HEAVY = {"asyncio", "yaml", "websockets", "webbrowser", "berth_cli.inside", "berth_cli.carrying"}


def _commands(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(("berth", *path)), command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), name)
            assert inner is not None
            if not (inner.help or "").startswith("Server: "):  # argparse has their help
                yield from _commands(inner, (*path, name))


COMMANDS = dict(_commands(cli))
LISTS = sorted(path for path in COMMANDS if path.endswith((" list", " classes", " inbox")))
# They need a name.
LISTS_OF_ONE = frozenset(
    {
        "berth ai-platform versions list",
        "berth endpoint key list",
        "berth model version list",
        "berth volumes snapshot list",
    }
)


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_says_what_it_and_each_of_its_options_does(path: str) -> None:
    command = COMMANDS[path]
    assert command.help
    silent = [p.opts for p in command.params if isinstance(p, click.Option) and not p.help]
    assert silent == []
    text = command.get_help(click.Context(command, info_name=path))
    assert [c for c in text if unicodedata.category(c) == "Cc" and c != "\n"] == []
    assert "\\" not in text


@pytest.fixture(scope="module")
def empty_portal() -> Iterator[str]:
    """A portal whose lists are empty."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"results": [], "next": None, "id": "x"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("path", [p for p in LISTS if p not in LISTS_OF_ONE])
def test_a_list_reads_nothing_that_it_does_not_need(path: str, empty_portal: str) -> None:
    """Half of its time was reading modules of other commands."""
    script = (
        "import sys; from berth_cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *path.split()[1:]],
        cwd=ROOT / "cli",
        env={
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "BERTH_URL": empty_portal,
            "BERTH_TOKEN": "x",
            "BERTH_PROJECT": "demo",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Nothing here yet." in done.stderr
    assert HEAVY & set(done.stdout.split()) == set()


def _completed(words: str, incomplete: str = "") -> list[str]:
    made = ShellComplete(cli, {}, "berth", "_BERTH_COMPLETE")
    return [item.value for item in made.get_completions(words.split(), incomplete)]


@pytest.mark.django_db(transaction=True)
def test_a_shell_completes_names_of_things_that_are_there(
    berth, token_of, alice, project, monkeypatch
) -> None:
    from clusters import registry
    from notebooks.services import ensure_default_presets

    registry.reset()
    ensure_default_presets()
    token = token_of(alice)
    monkeypatch.setenv("BERTH_TOKEN", token)
    for name in ("train-one", "other"):
        launched = berth("workspace", "launch", "jupyterlab", "--name", name, token=token)
        assert launched.exit_code == 0, launched.exception
    registry.reset()
    assert Workspace.objects.count() == 2
    assert _completed("workspace show", "tr") == ["train-one"]
    assert _completed("--project nowhere workspace stop") == []
    assert _completed("workspace stop") == ["other", "train-one"]
    assert _completed("project use", "vi") == [project.slug]
    assert "jupyterlab" in _completed("workspace launch", "jup")
    assert _completed("workspace list --project", "vi") == [project.slug]
    assert "workspace" in _completed("", "work")
    monkeypatch.setenv("BERTH_URL", "http://127.0.0.1:9")
    assert _completed("workspace stop") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_lines(berth, shell: str) -> None:
    said = berth("completion", shell)
    assert said.exit_code == 0
    assert "_BERTH_COMPLETE" in said.output


def test_the_commands_of_your_first_job_are_there_with_their_options() -> None:
    text = (ROOT / "docs/first-job.md").read_text()
    lines = [line.split("  #")[0] for line in re.findall(r"^berth .*", text, re.MULTILINE)]
    assert len(lines) > 12
    for line in lines:
        words = shlex.split(line)[1:]
        command = cli
        while isinstance(command, click.Group):
            found = command.get_command(click.Context(command), words[0])
            assert found is not None, line
            command, words = found, words[1:]
        command.make_context(line, words)
