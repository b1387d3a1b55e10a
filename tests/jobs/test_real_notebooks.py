"""C35 on one machine: a workspace's notebook and script run as jobs, with its packages and files."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from tests.notebooks.test_real_workspace import Jupyter
from tests.support.portal import Portal, environments

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

WITHIN_S = 120.0
JOBS, WORKSPACES = "projects/demo/jobs", "projects/demo/workspaces"
SIZE = {"cpu_milli": 1000, "memory_mib": 1024}


def notebook(*cells: str, kernel: str = "python3") -> dict[str, Any]:
    made = [
        {"cell_type": "code", "id": f"c{n}", "source": text, "metadata": {}, "outputs": []}
        for n, text in enumerate(cells)
    ]
    for cell in made:
        cell["execution_count"] = None
    spec = {"name": kernel, "display_name": kernel, "language": "python"}
    return {"cells": made, "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}


class Desk:
    """A person in a workspace that runs, and its jobs."""

    def __init__(self, portal: Portal) -> None:
        self.api = portal.api(portal.token("admin"))
        made = self.api.post(WORKSPACES, json=SIZE)
        assert made.status_code == 202, made.text
        self.id = made.json()["id"]
        self.row = self.until(f"{WORKSPACES}/{self.id}", "phase", "running")
        self.lab = Jupyter(portal, self.row).client

    def until(self, path: str, field: str, *wanted: str, bad: tuple[str, ...] = ()) -> Any:
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            row = self.api.get(path).json()
            if row["status"][field] in wanted:
                return row
            assert row["status"][field] not in bad, (row["status"], self.log(row))
            time.sleep(0.2)
        raise AssertionError(self.api.get(path).json()["status"])

    def put(self, path: str, content: Any) -> None:
        kind = "notebook" if path.endswith(".ipynb") and isinstance(content, dict) else "file"
        body = {"type": kind, "format": "json" if kind == "notebook" else "text"}
        answer = self.lab.put(f"api/contents/{path}", json={**body, "content": content})
        assert answer.status_code in {200, 201}, answer.text

    def folder(self, path: str) -> None:
        self.lab.put(f"api/contents/{path}", json={"type": "directory"})

    def read(self, path: str) -> Any:
        return self.lab.get(f"api/contents/{path}").json().get("content")

    def type(self, line: str, within_s: float = 30.0) -> str:
        """Run a line in a terminal of the workspace, and return what it printed."""
        name = self.lab.post("api/terminals").json()["name"]
        url = self.lab.base_url
        host = self.lab.headers["Host"]
        sock = socket.create_connection(("127.0.0.1", url.port or 80))
        headers = {"Authorization": self.lab.headers["Authorization"]}
        uri = f"ws://{host}/terminals/websocket/{name}"
        seen, deadline = "", time.monotonic() + within_s
        with connect(uri, sock=sock, additional_headers=headers) as ws:
            ws.send(json.dumps(["stdin", f"{line}; echo end=$?=\r"]))
            while not (found := re.search(r"end=(\d+)=", seen)):
                assert time.monotonic() < deadline, seen
                kind, *said = json.loads(ws.recv(timeout=within_s))
                seen += said[0] if kind == "stdout" else ""
        self.lab.delete(f"api/terminals/{name}")
        assert found[1] == "0", seen
        return seen

    def run(self, **said: Any) -> dict[str, Any]:
        answer = self.api.post(JOBS, json={"workspace": self.id, **said})
        assert answer.status_code == 202, answer.text
        row: dict[str, Any] = answer.json()
        return row

    def ended(self, row: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self.until(f"{JOBS}/{row['id']}", "state", "succeeded", "failed")
        return found

    def log(self, row: dict[str, Any]) -> str:
        answer: httpx.Response = self.api.get(f"{JOBS}/{row['id']}/logs")
        return str(answer.json().get("text"))


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    if not (environments() / "jupyterlab").exists():
        pytest.skip("the JupyterLab environment is not built (make run or make test builds it)")
    running = Portal({"BERTH_SMOKE_SECONDS": "15"})
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def desk(portal: Portal) -> Desk:
    return Desk(portal)


def test_c35_a_notebook_runs_with_the_packages_and_files_of_its_workspace(desk: Desk) -> None:
    desk.folder("work")
    # what pip does there: a file in the workspace's own layer of packages
    desk.type(
        "python -c \"import sysconfig, pathlib; pathlib.Path(sysconfig.get_path('purelib'), "
        "'mine.py').write_text('word = 42')\""
    )
    desk.put("work/data.txt", "of the folder")
    desk.put(
        "work/train.ipynb",
        notebook("import mine; print('sees', mine.word)", "open('data.txt').read()"),
    )
    row = desk.run(script="train.ipynb", workdir="work", env={"WORD": "x"})
    assert (row["workspace"], row["spec"]["smoke"]) == (desk.id, True)
    found = desk.ended(row)
    assert found["status"]["state"] == "succeeded", (found["status"], desk.log(found))
    assert found["smoke"]["state"] == "succeeded"
    assert "sees 42" in desk.log(found)
    result = desk.read("work/train.run-1.ipynb")
    assert "of the folder" in str(result["cells"][1]["outputs"])
    listed = desk.api.get(JOBS).json()["results"]
    assert [one["id"] for one in listed] == [row["id"]]  # its smoke run is in no list


def test_c35_a_cell_that_fails_is_the_reason_and_its_notebook_is_kept(desk: Desk) -> None:
    desk.put("fails.ipynb", notebook("1 + 1", "{}['missing']", "print('never')"))
    found = desk.ended(desk.run(script="fails.ipynb", smoke=False))
    assert (found["status"]["state"], found["exit_code"]) == ("failed", 1)
    first, *lines = found["status"]["failure"].splitlines()
    assert first == "Cell 2 failed: KeyError: 'missing'"
    assert any("----> 1 {}['missing']" in line for line in lines)
    kept = desk.read("fails.run-1.ipynb")["cells"]
    assert kept[1]["outputs"][0]["ename"] == "KeyError"
    assert kept[2]["outputs"] == []


@pytest.mark.parametrize(
    ("script", "content", "told"),
    [
        ("typo.py", "import os\nprint(os.getcwd()\n", "SyntaxError"),
        ("import.py", "import no_such_module\n", "ModuleNotFoundError: No module named"),
        ("name.py", "for n in range(3):\n    print(undefined)\n", "NameError"),
        ("gone.py", None, "gone.py is not there"),
        ("typo.ipynb", notebook("import time; time.sleep(60)", "def f(:"), "Cell 2 can't be run"),
        ("json.ipynb", "this is no json", "json.ipynb is no notebook"),
        ("kernel.ipynb", {**notebook("1"), "metadata": {"kernelspec": {"name": "ir", "language": "R"}}},
         "Its kernel “ir” is not there"),
    ],
)  # fmt: skip
def test_c35_a_smoke_run_catches_it_in_seconds_and_nothing_is_queued(
    script: str, content: Any, told: str, desk: Desk
) -> None:
    if content is not None:
        desk.put(script, content)
    found = desk.ended(desk.run(script=script))
    assert (found["status"]["state"], found["status"]["reason"]) == ("failed", "smoke-failed")
    assert found["started_at"] is None
    smoke = desk.api.get(f"{JOBS}/{found['smoke']['id']}").json()
    assert told in smoke["status"]["failure"]
    assert smoke["spec"]["gpus"] == 0


def test_c35_who_still_runs_at_the_limit_has_passed_whatever_it_leaves(desk: Desk) -> None:
    """It ignores SIGTERM, and a child of it leaves its session: none of both is there afterwards."""
    lines = (
        "import os, signal, subprocess, sys, time",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "if os.environ.get('BERTH_SMOKE_RUN'):",
        "    subprocess.Popen(['sleep', '7531'], start_new_session=True)",
        "    time.sleep(600)",
        "print('whole', sys.argv[1:])",
    )
    desk.put("long.py", "\n".join(lines))
    found = desk.ended(desk.run(script="long.py", args=["--epochs", "3"]))
    assert found["status"]["state"] == "succeeded", (found["status"], desk.log(found))
    assert "whole ['--epochs', '3']" in desk.log(found)
    assert "passed: it still ran after 15 s" in desk.log(found["smoke"])
    left = subprocess.run(["pgrep", "-f", "sleep 7531"], check=False, capture_output=True)
    assert left.stdout == b""


def test_c35_the_command_line_of_a_workspace_needs_no_sign_in(desk: Desk) -> None:
    desk.folder("deep")
    desk.put("deep/train.py", "import os, sys; print('ran', os.getcwd(), sys.argv[1:])")
    said = desk.type(
        "cd ~/deep && berth job run --smoke --follow -- python train.py --epochs 3", 90
    )
    assert "As this workspace, in ~/deep" in said
    assert re.search(r"ran \S+/deep \['--epochs', '3'\]", said)
    refused = desk.type("berth token list; test $? != 0")
    assert "berth_" not in refused
