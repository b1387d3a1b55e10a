"""Builds the images of the Dockerfile without a registry to pull from.

The base images (python, node, postgres, redis) are made on this machine by debootstrap and apt
and tagged with the names that the Dockerfile and the compose file use. They stand in for the
official ones: Debian's Python 3.11, PostgreSQL 15 and Redis 7, Node from its locked wheel.
Needs root, Debian, buildah, podman and debootstrap.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from devcluster.programs import only_one

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent / "stand_ins"
LABEL = "berth.dev/made-from"
ROOTFS = "localhost/berth-test/bookworm:1"
PYTHON = "docker.io/library/python:3.11-slim-bookworm"
NODE = "docker.io/library/node:22-bookworm-slim"
POSTGRES = "docker.io/library/postgres:17-bookworm"
REDIS = "docker.io/library/redis:7-bookworm"
SERVER, PROXY = "localhost/berth/server:test", "localhost/berth/proxy:test"
NOTEBOOK = "localhost/berth/notebook:test"
MODEL_SERVER = "localhost/berth/serving:test"
STAND_INS = {PYTHON: "python", NODE: "node", POSTGRES: "postgres", REDIS: "redis"}
PROGRAM = ROOT / "serving/programs"
PROGRAMS = ("buildah", "podman", "debootstrap", "runc")
LEFT_OUT = {
    *("tests", "docs", "benchmarks", "devcluster", "tools", "var", "node_modules", "build"),
    *("dist", "screens", "deploy/helm"),
}
BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


def lacking() -> str:
    """Why nothing can be built here; empty when it can."""
    if os.geteuid() != 0:
        return "not started as root"
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    return f"there is no {', '.join(missing)}" if missing else ""


def run(*words: str | Path, timeout: float = 1200) -> str:
    """Run one command and return what it printed; its last lines are the error."""
    done = subprocess.run(
        ["nice", "-n", "5", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
        cwd=ROOT,
    )
    if done.returncode:
        message = f"{' '.join(map(str, words[:4]))} … ended with {done.returncode}:\n"
        raise RuntimeError(message + done.stdout[-4000:])
    return done.stdout


def podman(env: dict[str, str], *words: str | Path, check: bool = True) -> str:
    done = subprocess.run(
        ["podman", *map(str, words)], capture_output=True, text=True, env=env, check=False
    )
    if check and done.returncode:
        message = f"podman {' '.join(map(str, words[:3]))}: {done.stderr[-2000:]}"
        raise AssertionError(message)
    return done.stdout


def exists(name: str, key: str = "") -> bool:
    """Whether the image is there, made from what ``key`` says."""
    done = subprocess.run(
        ["podman", "image", "inspect", "--format", f'{{{{index .Labels "{LABEL}"}}}}', name],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode == 0 and (not key or done.stdout.strip() == key)


def digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


# --- base images ---------------------------------------------------------------------------------


def base_images() -> None:
    if not exists(ROOTFS):
        with tempfile.TemporaryDirectory(prefix="berth-rootfs-", dir="/var/tmp") as folder:
            run(
                "debootstrap",
                "--variant=minbase",
                "--include=ca-certificates,git,tini",
                "bookworm",
                folder,
            )
            archive = Path(folder + ".tar")
            try:
                run("tar", "--numeric-owner", "-C", folder, "-cf", archive, ".")
                run("podman", "import", "-q", archive, ROOTFS)
            finally:
                archive.unlink(missing_ok=True)
    for name, stand_in in STAND_INS.items():
        stand_in_image(name, HERE / stand_in)


def stand_in_image(name: str, folder: Path) -> None:
    extra = ROOT / "requirements/node.txt"
    key = digest(*(p.read_bytes() for p in sorted(folder.iterdir())), extra.read_bytes())
    if exists(name, key):
        return
    shutil.copy(extra, folder / "node.txt")
    try:
        build(folder, name, key, "--build-arg", f"BASE={ROOTFS}")
    finally:
        (folder / "node.txt").unlink()


# --- our images ------------------------------------------------------------------------------------


def our_images() -> None:
    """Made once, also where two lanes of the tests want them at once."""
    with only_one("images"):
        base_images()
        key = source_key()
        for name, target in ((SERVER, "server"), (PROXY, "proxy")):
            if not exists(name, key):
                build(ROOT, name, key, "--target", target)


def notebook_image() -> None:
    """Nothing of the portal is in it: made again only where its own files change."""
    names = ("Dockerfile", "requirements/image-jupyterlab.txt")
    with only_one("images"):
        base_images()
        key = digest(*((ROOT / name).read_bytes() for name in names))
        if not exists(NOTEBOOK, key):
            build(ROOT, NOTEBOOK, key, "--target", "notebook")


def model_server_image() -> None:
    """Made again where its libraries, its program or how it is made change."""
    names = ["Dockerfile", "requirements/serving.txt"]
    with only_one("images"):
        base_images()
        files = [*(ROOT / name for name in names), *sorted(PROGRAM.rglob("*.py"))]
        key = digest(*(file.read_bytes() for file in files))
        if not exists(MODEL_SERVER, key):
            build(ROOT, MODEL_SERVER, key, "--target", "serving")


def source_key() -> str:
    """What goes into the images: every file that .dockerignore lets through."""
    parts = []
    for folder, folders, files in os.walk(ROOT):
        inside = Path(folder).relative_to(ROOT)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith((".", "__pycache__")) and str(inside / name) not in LEFT_OUT
        )
        for name in sorted(files):
            if name.endswith((".pyc", ".mo", ".md")) or (name.startswith(".") and name != ".npmrc"):
                continue
            parts += [str(inside / name).encode(), (Path(folder) / name).read_bytes()]
    return digest(*parts)


def build(folder: Path, name: str, key: str, *more: str) -> None:
    """Buildah without a daemon; packages come by this machine's own trust store."""
    with tempfile.TemporaryDirectory(prefix="berth-build-") as scratch:
        pip, npm = Path(scratch) / "pip.conf", Path(scratch) / "npmrc"
        pip.write_text(f"[global]\ncert = {BUNDLE}\ntimeout = 180\n")
        npm.write_text(f"cafile={BUNDLE}\nupdate-notifier=false\n")
        volumes = [f"{pip}:/etc/pip.conf:ro", f"{npm}:/root/.npmrc:ro", f"{BUNDLE}:{BUNDLE}:ro"]
        run(
            "buildah",
            "build",
            "--isolation=chroot",
            "--layers",
            "--pull-never",
            "--format=docker",
            *(word for one in volumes for word in ("--volume", one)),
            "--label",
            f"{LABEL}={key}",
            "--tag",
            name,
            *more,
            folder,
        )


if __name__ == "__main__":
    our_images()
