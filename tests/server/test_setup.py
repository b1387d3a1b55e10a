"""The set-up that runs before anything is installed: standard library only."""

import errno
import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import setup_shell, setup_steps, setup_uv
from tools.setup_shell import SetupError

ROOT = Path(__file__).resolve().parents[2]
LOCK = "uv==1.2.3 \\\n    --hash=sha256:" + "a" * 64 + " \\\n    --hash=sha256:" + "b" * 64 + "\n"


@pytest.fixture(autouse=True)
def _plain_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith(("PIP_", "UV_", "SSL_"))]:
        monkeypatch.delenv(name)


def test_jupyterlab_asks_nobody_about_news_and_leaves_the_choice_to_people(tmp_path: Path) -> None:
    setup_steps.set_lab_up(tmp_path)
    written = json.loads((tmp_path / "share/jupyter/lab/settings/overrides.json").read_text())
    # of the page, as a default: what a person chose is a setting, and goes before it
    assert written == {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}


def test_node_is_told_what_jupyterlabs_yarn_is(tmp_path: Path) -> None:
    """Otherwise it fails at each start, and writes the whole of it into the workspace's log."""
    yarn = tmp_path / "lib/python3.11/site-packages/jupyter_builder/yarn.js"
    yarn.parent.mkdir(parents=True)
    yarn.touch()
    setup_steps.set_lab_up(tmp_path)
    said = json.loads(yarn.with_name("package.json").read_text())
    assert said == {"type": "commonjs"}


def test_an_old_python_is_told_what_is_needed() -> None:
    script = (
        "import sys, runpy; sys.version_info = (3, 9, 2);"
        "runpy.run_path('tools/bootstrap.py', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "needs Python 3.11 or newer; this is Python 3.9" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_first_file_holds_no_syntax_that_an_old_python_can_not_read() -> None:
    compile((ROOT / "tools/bootstrap.py").read_text(), "bootstrap.py", "exec")
    source = (ROOT / "tools/bootstrap.py").read_text()
    assert "match " not in source
    assert 'f"' not in source.split("sys.exit(3)")[0]
    assert ":=" not in source


def test_the_pinned_uv_is_read_from_the_lock_file() -> None:
    assert setup_uv.pinned(LOCK) == ("1.2.3", {"a" * 64, "b" * 64})
    version, hashes = setup_uv.pinned((ROOT / "requirements/uv.txt").read_text())
    assert version
    assert len(hashes) > 5
    with pytest.raises(SetupError):
        setup_uv.pinned("uv==1.2.3\n")


def test_the_index_configured_for_pip_is_used_for_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = https://mirror.example/simple\ncert = /ca.pem\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    assert setup_uv.index_environment()["UV_DEFAULT_INDEX"] == "https://mirror.example/simple"
    assert setup_uv.index_environment()["SSL_CERT_FILE"] == "/ca.pem"
    monkeypatch.setenv("PIP_INDEX_URL", "https://other.example/simple")
    assert setup_uv.index_environment()["UV_DEFAULT_INDEX"] == "https://other.example/simple"
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://uvs-own.example/simple")
    assert "UV_DEFAULT_INDEX" not in setup_uv.index_environment()


def test_only_a_wheel_for_this_machine_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.libc_ver", lambda: ("glibc", "2.36"))
    good = "uv-1.2.3-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    assert setup_uv.fits(good, "1.2.3")
    for other in (
        "uv-1.2.3-py3-none-musllinux_1_1_x86_64.whl",
        "uv-1.2.3-py3-none-manylinux_2_17_aarch64.whl",
        "uv-1.2.30-py3-none-manylinux_2_17_x86_64.whl",
        "uv-1.2.3.tar.gz",
    ):
        assert not setup_uv.fits(other, "1.2.3")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A package index on loopback with one wheel, as the machine's pip is configured to use it."""
    name = "uv-1.2.3-py3-none-manylinux_2_17_x86_64.whl"
    folder = tmp_path / "simple" / "uv"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / name, "w") as wheel:
        wheel.writestr("uv-1.2.3.data/scripts/uv", "#!/bin/sh\necho uv 1.2.3\n")
    value = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "index.html").write_text(f'<a href="{name}#sha256={value}">{name}</a>')

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(tmp_path))

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
        monkeypatch.setattr("platform.machine", lambda: "x86_64")
        monkeypatch.setattr("platform.libc_ver", lambda: ("glibc", "2.36"))
        monkeypatch.setattr(setup_uv, "WAYS", setup_uv.WAYS[1:])  # a machine without pip
        monkeypatch.setattr("shutil.which", lambda _: None)
        yield folder / name, value
        server.shutdown()


def lock_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    lock = tmp_path / "uv.txt"
    lock.write_text(f"uv==1.2.3 \\\n    --hash=sha256:{value}\n")
    monkeypatch.setattr(setup_uv, "LOCK", lock)


def test_without_pip_uv_comes_from_the_configured_index(
    tmp_path: Path, index: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lock_of(tmp_path, monkeypatch, index[1])
    uv = setup_uv.find_uv(tmp_path / "tools")
    assert subprocess.check_output([uv], text=True) == "uv 1.2.3\n"
    assert setup_uv.find_uv(tmp_path / "tools") == uv  # and is not fetched again


def test_a_wheel_that_is_not_the_pinned_one_is_refused(
    tmp_path: Path, index: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lock_of(tmp_path, monkeypatch, index[1])
    with index[0].open("ab") as wheel:
        wheel.write(b"something more")
    with pytest.raises(SetupError, match="not what the lock file says"):
        setup_uv.find_uv(tmp_path / "tools")
    assert not list((tmp_path / "tools").glob("*/uv"))


def test_a_machine_with_neither_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock_of(tmp_path, monkeypatch, "0" * 64)
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr(setup_uv, "pip_command", lambda _: None)
    monkeypatch.setattr(setup_uv, "pip_settings", dict)
    with pytest.raises(SetupError, match="apt-get install python3-pip"):
        setup_uv.find_uv(tmp_path / "tools")


def test_the_pip_that_a_distribution_put_aside_is_found_and_runs() -> None:
    wheel = setup_uv.bundled_pip()
    if wheel is None:
        pytest.skip("this Python came without ensurepip")
    done = subprocess.check_output([sys.executable, wheel / "pip", "--version"], text=True)
    assert done.startswith("pip ")


@pytest.mark.parametrize(
    ("number", "word"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EACCES, "can't be written by this user"),
        (errno.EROFS, "read-only disk"),
    ],
)
def test_an_error_of_the_machine_is_one_helpful_sentence(number: int, word: str) -> None:
    assert word in setup_shell.explain(OSError(number, os.strerror(number), "/srv/berth/x"))


def test_a_full_disk_inside_another_program_is_recognised() -> None:
    script = "import sys; sys.exit('OSError: [Errno 28] No space left on device')"
    with pytest.raises(SetupError, match="disk is full"):
        setup_shell.run([sys.executable, "-c", script])


def test_a_failed_step_shows_the_last_lines_and_leaves_no_stamp(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("nothing==0.0.0 --hash=sha256:" + "0" * 64 + "\n")
    folder = tmp_path / "venv"
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\necho no such package\nexit 7\n")
    uv.chmod(0o755)
    with pytest.raises(SetupError, match="no such package"):
        setup_steps.environment("test", folder, lock, Path(sys.executable), uv)
    assert not (folder / ".made-from").exists()


def test_an_environment_is_made_again_only_when_its_lock_changes(tmp_path: Path) -> None:
    lock, calls, folder = tmp_path / "lock.txt", tmp_path / "calls", tmp_path / "venv"
    lock.write_text("one\n")
    uv = tmp_path / "uv"
    uv.write_text(
        f'#!/bin/sh\necho "$1 $2" >> {calls}\nmkdir -p {folder}/bin\n'
        f"ln -sf {os.path.realpath(sys.executable)} {folder}/bin/python\n"
    )
    uv.chmod(0o755)
    base = Path(os.path.realpath(sys.executable))
    for _ in range(2):
        setup_steps.environment("test", folder, lock, base, uv)
    assert calls.read_text().split() == ["venv", "-q", "pip", "sync"]
    lock.write_text("two\n")
    setup_steps.environment("test", folder, lock, base, uv)
    assert calls.read_text().split() == ["venv", "-q", "pip", "sync", "pip", "sync"]


def test_environments_of_earlier_versions_go_after_a_time_when_nobody_uses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTH_ENVIRONMENTS_DIR", str(tmp_path))
    now, used, left, fresh = (tmp_path / f"serving-{c * 16}" for c in "abcd")
    for folder in (now, used, left, fresh, tmp_path / "torch"):
        (folder / "bin").mkdir(parents=True)
    (tmp_path / "serving").symlink_to(now.name)
    setup_steps.remove_left_environments()
    assert sorted(path.parent.name for path in tmp_path.glob("*/.left")) == [
        one.name for one in (used, left, fresh)
    ]
    long_ago = time.time() - setup_steps.LEFT_KEPT_S - 60
    for folder in (used, left):
        os.utime(folder / ".left", (long_ago, long_ago))
    (left / ".made-from").touch()

    def cut(folder: Path) -> None:
        assert not (folder / ".made-from").exists()
        raise OSError(errno.EIO, "cut off")

    with monkeypatch.context() as patch:
        patch.setattr(setup_steps.shutil, "rmtree", cut)
        os.utime(used / ".left")
        with pytest.raises(OSError, match="cut off"):
            setup_steps.remove_left_environments()
        os.utime(used / ".left", (long_ago, long_ago))
    with subprocess.Popen(["sleep", "60"], env={"PATH": f"{used}/bin:{os.environ['PATH']}"}) as it:
        while str(used) not in Path(f"/proc/{it.pid}/environ").read_text():
            time.sleep(0.01)  # it is told a moment after the program began
        setup_steps.remove_left_environments()
        it.kill()
    assert [one.exists() for one in (now, used, left, fresh)] == [True, True, False, True]
    (tmp_path / "serving").unlink()
    (tmp_path / "serving").symlink_to(used.name)  # the earlier version is back
    setup_steps.remove_left_environments()
    assert [(one / ".left").exists() for one in (now, used)] == [True, False]


def test_no_address_of_a_package_index_is_committed() -> None:
    names = ("pypi" + ".org", "pythonhosted" + ".org", "registry.npmjs" + ".org")
    places = [*ROOT.glob("requirements/*"), *ROOT.glob("tools/*.py"), ROOT / "package-lock.json"]
    for place in (*places, ROOT / "Makefile", ROOT / ".npmrc"):
        text = place.read_text()
        assert not [name for name in names if name in text], place
