"""The writable environment on top of the read-only one, with a real JupyterLab."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import time
import urllib.request
import uuid
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from websockets.sync.client import connect

from runtime.drivers.local import environ
from runtime.spec import Probe, Resources
from tests.drivers.local.harness import IS_ROOT, MODES, PATIENCE_S, ROOT

BASE = Path(os.environ.get("BERTH_ENVIRONMENTS_DIR", ROOT / "var/environments")) / "jupyterlab"
TOKEN = "test-token"


def test_describing_a_layer_takes_no_time_and_no_process(tmp_path):
    (tmp_path / "base/bin").mkdir(parents=True)
    (tmp_path / "base/lib/python3.11/site-packages").mkdir(parents=True)
    (tmp_path / "base/bin/python").symlink_to("/usr/bin/python3")
    taken = []
    for _ in range(5):  # the machine may be busy: the best of them counts
        begun = time.perf_counter()
        layer = environ.python_layer(tmp_path / "space", tmp_path / "base")
        taken.append(time.perf_counter() - begun)
    assert min(taken) < 0.06
    written = {Path(path).name: text for path, text, _ in layer.files}
    assert "include-system-site-packages = false" in written["pyvenv.cfg"]
    assert str(tmp_path / "base/lib") in written["_berth_base.pth"]
    assert json.loads(written["kernel.json"])["argv"][0] == str(tmp_path / "space/env/bin/python")
    assert layer.path[0] == str(tmp_path / "space/env/bin")


def wheel(folder: Path, name: str) -> Path:
    """Write a tiny wheel; no network is needed to install it."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": "where = __file__\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{path},sha256={digest.decode()},{len(text)}\n"
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    target = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(target, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    target.chmod(0o644)
    return target


class Lab:
    """Speaks to a Jupyter server as a browser would."""

    def __init__(self, address: str) -> None:
        self.address = address

    def post(self, path: str) -> dict:
        return json.loads(self._ask("POST", path, {}))

    def put(self, path: str, body: dict) -> None:
        self._ask("PUT", path, body)

    def get(self, path: str) -> dict:
        return json.loads(self._ask("GET", path))

    def _ask(self, method: str, path: str, body: dict | None = None) -> bytes:
        request = urllib.request.Request(
            f"http://{self.address}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {TOKEN}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.read()

    def run(self, code: str) -> str:
        """Run code in a new kernel; return everything it printed."""
        kernel = self.post("/api/kernels")["id"]
        printed, asked = "", uuid.uuid4().hex
        header = {
            "msg_id": asked,
            "session": "s",
            "username": "u",
            "msg_type": "execute_request",
            "version": "5.3",
        }
        message = {
            "header": header, "parent_header": {}, "metadata": {}, "channel": "shell",
            "content": {"code": code, "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False},
        }  # fmt: skip
        url = f"ws://{self.address}/api/kernels/{kernel}/channels?token={TOKEN}"
        with connect(url, max_size=None, open_timeout=PATIENCE_S) as socket:
            socket.send(json.dumps(message))
            while True:
                answer = json.loads(socket.recv(timeout=PATIENCE_S))
                if answer["parent_header"].get("msg_id") != asked:
                    continue
                if answer["msg_type"] == "stream":
                    printed += answer["content"]["text"]
                if answer["msg_type"] == "error":
                    printed += "\n".join(answer["content"]["traceback"])
                if (
                    answer["msg_type"] == "status"
                    and answer["content"]["execution_state"] == "idle"
                ):
                    return printed

    def terminal(self, line: str, until: str) -> str:
        name = self.post("/api/terminals")["name"]
        said = ""
        with connect(
            f"ws://{self.address}/terminals/websocket/{name}?token={TOKEN}", open_timeout=PATIENCE_S
        ) as socket:
            socket.send(json.dumps(["stdin", line + "\r"]))
            while until not in said:
                kind, *rest = json.loads(socket.recv(timeout=PATIENCE_S))
                if kind == "stdout":
                    said += rest[0]
        return said


def lab(supervisor, **options):
    command = (
        "jupyter-lab", "--no-browser", "--ServerApp.port={port}", "--ServerApp.ip=127.0.0.1",
        "--ServerApp.port_retries=0", "--ServerApp.allow_origin=*", "--allow-root",
    )  # fmt: skip
    return supervisor.spec(
        command,
        environment="jupyterlab",
        secret_env=lambda: {"JUPYTER_TOKEN": TOKEN},
        probe=Probe("/api", 200),
        resources=Resources(cpu_milli=2000, memory_mib=2048, pids=500),
        **options,
    )


def lies_in_tmp() -> bool:
    return Path("/tmp") in BASE.resolve().parents


@pytest.fixture(params=MODES)
def jupyter(request, make_supervisor):
    if not (BASE / "bin/jupyter-lab").exists():
        pytest.skip("no notebook environment on this machine")
    mode = request.param
    reach = Path(os.path.realpath(BASE / "bin/python"))
    if IS_ROOT and not all(parent.stat().st_mode & 1 for parent in reach.parents):
        pytest.skip("the notebook environment's interpreter is closed to other users")
    if mode == "root" and lies_in_tmp():
        pytest.skip("this checkout lies below /tmp, and each workspace has a /tmp of its own")
    supervisor = make_supervisor(mode)
    (supervisor.environments / "jupyterlab").symlink_to(BASE.resolve())
    return supervisor


@pytest.mark.real
def test_two_workspaces_on_one_home_have_a_layout_each_that_survives_a_stop(jupyter):
    one = lab(jupyter)
    two = lab(jupyter, mounts=one.mounts)

    def layout(spec, *tabs):
        """Return the tabs that JupyterLab would open, after keeping these."""
        server = Lab(wait_ready(jupyter, spec).address)
        path = "/lab/api/workspaces/default"
        if tabs:
            kept = {"data": {"tabs": list(tabs)}, "metadata": {"id": "default"}}
            server.put(path, kept)
        return server.get(path)["data"].get("tabs")

    for spec in (one, two):
        jupyter.driver.ensure(spec)
    assert layout(one, "first.ipynb") == ["first.ipynb"]
    assert layout(two) is None
    jupyter.stop(one.uid)
    again = lab(jupyter, uid=one.uid, launch=2, mounts=one.mounts)
    jupyter.driver.ensure(again)
    assert layout(again) == ["first.ipynb"]


@pytest.mark.real
def test_every_pip_install_lands_in_the_workspace_and_survives_a_stop(jupyter):
    wheels = jupyter.folder / "wheels"
    wheels.mkdir()
    wheels.chmod(0o755)
    one, two, three, four = (wheel(wheels, name) for name in ("bone", "btwo", "bthree", "bfour"))
    spec = lab(jupyter)
    jupyter.driver.ensure(spec)
    found = wait_ready(jupyter, spec)
    server = Lab(found.address)
    said = server.run(f"!pip install --no-index {one}\n%pip install --no-index {two}\n")
    assert said.count("Successfully installed") == 2, said
    assert "Successfully installed" in server.run(f"!python -m pip install --no-index {three}")
    assert "Successfully" in server.terminal(f"pip install --no-index {four}", "Successfully")
    jupyter.stop(spec.uid)

    again = lab(jupyter, uid=spec.uid, launch=2, mounts=spec.mounts)
    jupyter.driver.ensure(again)
    server = Lab(wait_ready(jupyter, again).address)
    said = server.run(
        "import sys, bone, btwo, bthree, bfour, IPython\n"
        "for module in (bone, btwo, bthree, bfour, IPython): print(module.__file__)\n"
        "print(sys.prefix)"
    )
    *mine, theirs, prefix = said.split()
    env = str(jupyter.state / "spaces" / spec.uid / "env")
    assert all(path.startswith(env) for path in mine), said
    assert theirs.startswith(str(BASE.resolve()))
    assert prefix == env
    assert not list(BASE.resolve().glob("lib/python3*/site-packages/bone*"))


@pytest.mark.real
def test_a_broken_layer_does_not_break_the_server(jupyter):
    """The user deletes and spoils everything in his environment: Lab still opens."""
    spec = lab(jupyter)
    env = jupyter.state / "spaces" / spec.uid / "env"
    spoil = jupyter.shell(
        "rm -rf $VIRTUAL_ENV/bin $VIRTUAL_ENV/lib; echo no > $VIRTUAL_ENV/bin; echo no > $VIRTUAL_ENV/lib",
        uid=spec.uid,
        environment="jupyterlab",
        mounts=spec.mounts,
    )
    jupyter.ended(spoil)
    assert (env / "bin").is_file()
    again = lab(jupyter, uid=spec.uid, launch=2, mounts=spec.mounts)
    jupyter.driver.ensure(again)
    assert wait_ready(jupyter, again)


@pytest.mark.real
def test_runtime_files_lie_outside_the_home(jupyter):
    spec = lab(jupyter)
    jupyter.driver.ensure(spec)
    wait_ready(jupyter, spec)
    runtime = jupyter.state / "spaces" / spec.uid / "runtime"
    assert any(runtime.iterdir())
    assert not (jupyter.home(spec) / ".local/share/jupyter/runtime").exists()
    assert runtime.stat().st_mode & 0o077 == 0


def wait_ready(supervisor, spec):
    from runtime.protocol import Seen

    found = supervisor.until(spec.uid, Seen.READY, Seen.EXITED, seconds=2 * PATIENCE_S)
    assert found.seen == Seen.READY, supervisor.log(spec)
    return found


def test_the_packages_of_another_workload_lie_between_its_own_and_the_environment(
    tmp_path: Path,
) -> None:
    base, space, other = (tmp_path / name for name in ("base", "space", "other"))
    (base / "bin").mkdir(parents=True)
    (base / "bin/python").symlink_to(sys.executable)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (base / f"lib/{version}/site-packages").mkdir(parents=True)
    theirs = other / f"env/lib/{version}/site-packages"
    elsewhere = tmp_path / "elsewhere"
    for folder in (theirs, elsewhere):
        folder.mkdir(parents=True)
    (theirs / "installed.py").write_text("word = 'theirs'")
    (theirs / "editable.pth").write_text(f"{elsewhere}\n")  # as ``pip install -e`` leaves it
    (elsewhere / "edited.py").write_text("word = 'edited'")
    layer = environ.python_layer(space, base, other / "env")
    assert layer.path == [f"{space}/env/bin", f"{other}/env/bin", f"{base}/bin"]
    for folder in layer.folders:
        Path(folder).mkdir(parents=True, exist_ok=True)
    for name, text, mode in layer.files:
        Path(name).write_text(str(text)) if isinstance(text, str) else Path(name).write_bytes(text)
        Path(name).chmod(mode)
    for name, target in layer.links:
        Path(name).symlink_to(target)
    code = "import installed, edited; print(installed.word, edited.word)"
    said = subprocess.run(
        [f"{space}/env/bin/python", "-c", code], capture_output=True, text=True, check=True
    )
    assert said.stdout == "theirs edited\n"


def test_packages_that_are_gone_or_somebody_elses_are_refused(tmp_path: Path) -> None:
    from runtime.drivers.local.launcher import Launcher, Machine
    from runtime.drivers.local.requests import Refused
    from runtime.drivers.local.users import own_user

    machine = Machine(tmp_path / "state", tmp_path / "volumes", tmp_path / "environments")
    spec = {"uid": "mine", "environment": "", "packages_of": "other"}
    me = own_user()
    with pytest.raises(Refused, match="the workspace is gone"):
        Launcher(machine, spec, me).packages()
    (machine.spaces / "other/env").mkdir(parents=True)
    assert Launcher(machine, spec, me).packages() == machine.spaces / "other/env"
    stranger = replace(me, uid=me.uid + 1)
    with pytest.raises(Refused, match="the workspace is gone"):
        Launcher(machine, spec, stranger).packages()
    with pytest.raises(Refused, match="not a plain name"):
        Launcher(machine, {**spec, "packages_of": "../other"}, me).packages()
