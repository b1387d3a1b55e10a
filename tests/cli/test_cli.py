"""Every verb of the client through a listening portal; the engine is driven by hand."""

from __future__ import annotations

import json
import stat

import httpx
import pytest
import yaml
from berth_cli import client, main
from berth_cli.client import ApiError

from tests.cli.conftest import read
from tests.support import driving

pytestmark = pytest.mark.django_db(transaction=True)

MANIFEST = """
apiVersion: berth.dev/v1
kind: Workspace
metadata:
  name: From a file
spec:
  preset: jupyterlab
  memory_mib: 1024
"""


@pytest.fixture
def world(project, db):
    from clusters import registry
    from notebooks.services import ensure_default_presets

    registry.reset()
    ensure_default_presets()
    yield
    registry.reset()


@pytest.fixture
def ann(berth, token_of, alice, world):
    """The client signed in as the owner of ``vision``."""
    token = token_of(alice)
    return lambda *args, stdin=None: berth(*args, token=token, stdin=stdin)


def test_a_token_from_standard_input_signs_in_and_is_kept_readable_by_its_owner_only(
    berth, config_file, token_of, alice, live_server
):
    result = berth("login", live_server.url, "--token-stdin", stdin=token_of(alice) + "\n")
    assert result.exit_code == 0, result.output
    assert "as alice" in result.output
    assert stat.S_IMODE(config_file.stat().st_mode) == 0o600
    assert json.loads(config_file.read_text())["server"] == live_server.url
    assert read(berth("whoami", "-o", "json"))["username"] == "alice"


def test_a_wrong_token_is_one_sentence_and_exit_code_3_and_nothing_is_kept(berth, config_file):
    result = berth("login", "--token-stdin", stdin="berth_" + "x" * 40 + "\n")
    assert result.exit_code == 3
    assert not config_file.exists()


def test_a_portal_that_is_not_there_is_exit_code_7(berth, monkeypatch):
    monkeypatch.setenv("BERTH_URL", "http://127.0.0.1:9")
    result = berth("whoami", token="berth_x")
    assert result.exit_code == 7


@pytest.mark.parametrize(("code", "page"), [(200, "<html>"), (500, "[1]")])
def test_an_address_where_something_else_answers_is_a_sentence(berth, monkeypatch, code, page):
    answers = httpx.MockTransport(lambda _request: httpx.Response(code, text=page))
    other = httpx.Client(transport=answers, base_url="http://portal")
    monkeypatch.setattr(client, "opened", lambda **_options: other)
    said = berth("whoami", token="x")
    assert (said.exit_code, type(said.exception)) == (1, ApiError)


def test_what_can_be_no_address_or_token_is_a_sentence(berth):
    assert berth("--server", "http://a:b", "whoami", token="x").exit_code == 2
    assert berth("whoami", token="t\N{LATIN SMALL LETTER O WITH DIAERESIS}ken").exit_code == 3


def test_a_broken_configuration_is_said_before_anybody_signs_in(berth, config_file, live_server):
    config_file.write_text("{")
    said = berth("login", live_server.url, "--token-stdin", stdin="x\n")
    assert (said.exit_code, "Mend it" in str(said.exception)) == (1, True)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            PermissionError(13, "Permission denied", "/a\x1b[2J"),
            "Error: /a[2J: Permission denied\n",
        ),
        (OSError(28, "No space left on device"), "Error: No space left on device\n"),
        (ApiError("no \x1b[2J"), "Error: no [2J\n"),
    ],
)
def test_an_error_is_one_harmless_sentence(monkeypatch, capsys, error, said):
    def fail(**_how):
        raise error

    monkeypatch.setattr(main.cli, "main", fail)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert (ended.value.code, capsys.readouterr().err) == (1, said)


def test_launch_list_show_stop_resume_extend_and_delete(ann, world):
    made = read(ann("workspace", "launch", "jupyterlab", "--name", "lab", "-o", "json"))
    assert made["status"]["phase"] == "pending"
    driving.run_due()
    shown = read(ann("workspace", "show", "lab", "-o", "json"))
    assert shown["status"]["phase"] == "running"
    listed = ann("workspace", "list")
    assert "lab" in listed.stdout
    assert "running" in listed.stdout
    opened = ann("workspace", "open", "lab", "--print")
    assert opened.stdout.strip() == shown["status"]["url"]
    assert ann("workspace", "stop", "lab").exit_code == 0
    driving.run_due()
    assert ann("workspace", "open", "lab", "--print").exit_code == 5
    assert ann("workspace", "resume", made["id"]).exit_code == 0
    driving.run_due()
    assert read(ann("workspace", "show", "lab", "-o", "json"))["launch"] == 2
    wrong = ann("workspace", "delete", "lab", stdin="other\n")
    assert wrong.exit_code == 2
    assert ann("workspace", "delete", "lab", stdin="lab\n").exit_code == 0
    driving.run_due()
    assert read(ann("workspace", "list", "-o", "json")) == []


def test_c33_park_go_on_without_gpus_and_get_them_back(ann, world, project):
    from clusters import registry, services
    from clusters.models import Flavor
    from queues.models import Guarantee, Queue
    from runtime.protocol import Device

    machine = registry.driver_for("local")
    machine.set_devices([Device("GPU-0", 0, "H100", 80_000)])
    cluster = services.health_store(key="local", health=machine.probe())
    queue = Queue.objects.create(project=project, name=project.slug)
    kind = Flavor.objects.get(name="h100")
    Guarantee.objects.create(queue=queue, cluster=cluster, flavor=kind, guaranteed=1)
    ann("workspace", "launch", "--name", "lab", "--gpus", "1")
    driving.run_due()
    assert ann("workspace", "park", "lab").exit_code == 0
    driving.run_due()
    shown = ann("workspace", "show", "lab").stdout
    assert "Parked; resume any time" in shown
    assert "Its GPU: ready about now · by your ticket." in shown
    assert ann("workspace", "park", "lab").exit_code == 5
    assert ann("workspace", "resume", "lab", "--cpu").exit_code == 0
    driving.run_due()
    seen = read(ann("workspace", "show", "lab", "-o", "json"))
    assert (seen["status"]["phase"], seen["spec"]["gpus"]) == ("running", 0)
    assert ann("workspace", "regain", "lab").exit_code == 0
    assert read(ann("workspace", "show", "lab", "-o", "json"))["spec"]["gpus"] == 1


def test_wait_follows_the_state_and_ends_when_it_runs(ann, world):
    made = read(ann("workspace", "launch", "-o", "json"))
    driving.run_due()
    again = ann("workspace", "resume", made["id"], "--wait", "-o", "json")
    assert again.exit_code in {0, 5}  # it runs already: done, or said so
    timed_out = ann("workspace", "stop", made["id"], "--wait", "--timeout", "0.1")
    assert timed_out.exit_code == 6


def test_the_four_doors_make_the_same_object(ann, world, tmp_path):
    file = tmp_path / "workspace.yaml"
    file.write_text(MANIFEST)
    plan = read(ann("workspace", "launch", "-f", str(file), "--plan", "-o", "json"))
    assert plan["action"] == "create"
    assert read(ann("workspace", "list", "-o", "json")) == []
    made = read(ann("apply", "-f", str(file), "-o", "json"))
    assert made["spec"]["memory_mib"] == 1024
    by_option = read(
        ann("workspace", "launch", "jupyterlab", "--memory", "1024", "--name", "b", "-o", "json")
    )
    assert by_option["spec"] == made["spec"]
    twice = read(ann("apply", "-f", str(file), "--plan", "-o", "json"))
    assert twice["action"] == "none"


def test_what_stands_beside_a_file_is_refused_and_not_passed_over(ann, world, tmp_path):
    file = tmp_path / "workspace.yaml"
    file.write_text(MANIFEST)
    launch = ("workspace", "launch", "-f", str(file))
    for words in (("--gpus", "4"), ("--env", "A=b"), ("--no-ports",), ("jupyterlab",)):
        said = ann(*launch, *words)
        named = "PRESET" if words == ("jupyterlab",) else words[0]
        assert (said.exit_code, named in str(said.exception)) == (2, True), words
    assert read(ann("workspace", "list", "-o", "json")) == []
    said = ann("volumes", "create", "data", "--size", "1g", "-f", str(file))
    assert (said.exit_code, "NAME, --size" in str(said.exception)) == (2, True)
    assert read(ann(*launch, "--plan", "-p", "vision", "-o", "json"))["action"] == "create"


def test_a_plan_that_would_be_refused_is_an_error_in_every_format(ann, world):
    launch = ("workspace", "launch", "jupyterlab", "--name", "lab")
    assert ann(*launch).exit_code == 0
    for form in ("table", "json", "yaml"):
        assert ann(*launch, "--plan", "-o", form).exit_code == 5
    assert read(ann(*launch, "--plan", "-o", "json"))["allowed"] is False


def test_questions_and_sentences_keep_out_of_what_programs_read(ann, world, tmp_path):
    ann("workspace", "launch", "jupyterlab", "--name", "lab")
    gone = ann("workspace", "delete", "lab", "-o", "json", stdin="lab\n")
    assert read(gone)["desired"] == "absent"
    assert "Type its name to confirm" in gone.stderr
    made = read(ann("token", "create", "ci", "-o", "json"))
    assert ann("token", "revoke", made["id"], "-o", "json").stdout == ""
    file = tmp_path / "two.yaml"
    file.write_text(f"{MANIFEST}---{MANIFEST.replace('From a file', 'Another')}")
    both = list(yaml.safe_load_all(ann("apply", "-f", str(file), "-o", "yaml").stdout))
    assert [one["name"] for one in both] == ["From a file", "Another"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a: [", "not YAML"),
        ("", "holds nothing"),
        ("- 1", "mapping"),
        ("kind: Pod", "apiVersion"),
        ("apiVersion: berth.dev/v1\nkind: Pod", "Workspace"),
        ("apiVersion: berth.dev/v1\nkind: Workspace\nmetadata: x", "metadata"),
        ("kind: Workspace\nmetadata: {name: 2026-11-23}", "quotes"),
        (b"kind: \xff\xfe", "UTF-8"),
        ("kind: Workspace\nkind: Load", "“kind” stands twice"),
        ("kind: Workspace\nspec: {gpus: 1, cpu: 2, gpus: 8}", "“gpus” stands twice"),
        ("kind: Workspace\nspec: {cpu_milli: 02000}", "02000 would be 1024"),
        ("kind: Workspace\nspec: {cpu_milli: 1:30}", "1:30 would be 90"),
    ],
)
def test_a_broken_file_is_a_sentence_and_exit_code_2(ann, world, tmp_path, text, word):
    file = tmp_path / "broken.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    result = ann("apply", "-f", str(file), "-p", "vision")
    assert result.exit_code == 2
    assert word in str(result.exception)
    piped = ann("apply", "-f", "-", "-p", "vision", stdin=file.read_bytes())
    assert (piped.exit_code, word in str(piped.exception)) == (2, True), piped


def test_someone_elses_project_is_exit_code_4_as_if_it_were_not_there(
    berth, token_of, charlie, world
):
    token = token_of(charlie)
    there = berth("workspace", "list", "--project", "vision", token=token)
    absent = berth("workspace", "list", "--project", "nothing", token=token)
    assert there.exit_code == absent.exit_code == 4
    assert str(there.exception) == str(absent.exception)


def test_tokens_are_listed_made_once_and_revoked(ann, berth):
    made = read(ann("token", "create", "ci", "--read-only", "--days", "7", "-o", "json"))
    assert made["token"].startswith("berth_")
    assert berth("project", "list", token=made["token"]).exit_code == 0
    assert berth("workspace", "launch", "-p", "vision", token=made["token"]).exit_code == 4
    assert "ci" in ann("token", "list").stdout
    assert ann("token", "revoke", made["id"]).exit_code == 0
    assert berth("project", "list", token=made["token"]).exit_code == 3


def test_projects_and_presets_are_listed_and_one_is_chosen(ann):
    assert "vision" in ann("project", "list").stdout
    assert "alice" in ann("project", "members").stdout
    assert "jupyterlab" in ann("preset", "list").stdout
    assert ann("project", "use", "vision").exit_code == 0
    assert ann("project", "use", "nothing").exit_code == 4


def test_names_that_hold_control_sequences_do_not_steer_the_terminal(ann, world):
    from berth_cli.output import printable

    from notebooks.models import Workspace

    read(ann("workspace", "launch", "--name", "x", "-o", "json"))
    Workspace.objects.update(name="\x1b[31mred")
    assert "\x1b" not in ann("workspace", "list").stdout
    assert printable("a\x1b[2Jb\n") == "a[2Jb\n"


def in_a_process(code, **env):
    """Run ``code`` where the client can be imported; return (exit code, output, errors)."""
    import os
    import subprocess
    import sys
    from pathlib import Path

    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, '.'); {code}"],
        cwd=Path(__file__).resolve().parents[2] / "cli",
        env={**os.environ, **env},
        capture_output=True,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_help_needs_no_portal_and_no_django(config_file):
    code = (
        "sys.modules['django'] = None;"
        "from berth_cli.main import main; sys.argv = ['berth', 'workspace', '--help']; main()"
    )
    ended, said, errors = in_a_process(code)
    assert ended == 0, errors
    assert "launch" in said


SAYS = "import click; from berth_cli import main; main.cli.main = lambda **_: {act}; main.main()"


def test_what_is_printed_is_utf_8_whatever_a_console_says_of_itself(config_file):
    code = SAYS.format(act="click.echo('日本語 ─ 名前')")
    assert in_a_process(code, PYTHONIOENCODING="cp1252") == (0, "日本語 ─ 名前\n", "")


def test_an_error_about_a_name_that_is_no_text_is_printed_too(config_file):
    code = SAYS.format(act="print('caf' + chr(0xdce9) + ' ─', file=sys.stderr)")
    assert in_a_process(code) == (0, "", "caf\\udce9 ─\n")


def test_a_workspace_is_found_by_a_name_with_any_sign_in_it(ann, world):
    for name in ("a/b ../c?", "apply"):
        made = read(ann("workspace", "launch", "jupyterlab", "--name", name, "--output", "json"))
        found = read(ann("workspace", "show", name, "--output", "json"))
        assert found["id"] == made["id"]
    assert read(ann("workspace", "show", made["id"], "--output", "json"))["id"] == made["id"]
    missing = ann("workspace", "show", "not-there")
    assert missing.exit_code == 4
    assert "no workspace called not-there" in str(missing.exception)
