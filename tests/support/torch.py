"""Debian's PyTorch, unpacked in a folder: nothing of this machine's own packages changes.

An environment of one machine and a layer of an image are made of the same folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from devcluster import images, oci, serving_images
from devcluster.layout import ROOT, cache
from devcluster.programs import only_one
from tests.support.portal import environments
from tools.setup_shell import digest

PACKAGE, ENVIRONMENT, IN_IMAGE = "python3-torch", "torch", "/opt/torch"
_LIBRARIES = ("lib/x86_64-linux-gnu", "usr/lib", "usr/lib/x86_64-linux-gnu")
# Debian chooses one of several by links that its own installation makes.
_CHOSEN = ("usr/lib/x86_64-linux-gnu/blas", "usr/lib/x86_64-linux-gnu/lapack")
_PYTHON = "usr/lib/python3/dist-packages"
_KEY = "1"  # of how it is unpacked

# Each replica trains the same model on data of its own, and says what came out of it.
PROGRAM = """
import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)  # replica 0's weights count: DDP sends them to the others
net = DistributedDataParallel(torch.nn.Linear(4, 1))
steps = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(5):
    steps.zero_grad()
    net(torch.full((8, 4), float(rank + 1))).pow(2).mean().backward()
    steps.step()
total = torch.tensor([float(rank + 1)])
dist.all_reduce(total)
told = [round(float(w), 5) for w in net.module.weight.detach().flatten()]
print("trained", rank, dist.get_world_size(), int(total), told, sep="|", flush=True)
dist.destroy_process_group()
"""


def trained(log: str) -> tuple[int, int, int, str]:
    """Return rank, size, what all ranks have in sum, and the weights, as ``PROGRAM`` tells them."""
    line = next(line for line in log.splitlines() if line.startswith("trained|"))
    _word, rank, size, total, weights = line.split("|")
    return int(rank), int(size), int(total), weights


def unpacked() -> Path:
    """Return the folder with PyTorch and all that it needs; skips where there is none to be had."""
    if not Path("/etc/debian_version").read_text().startswith("12"):
        pytest.skip("Debian's PyTorch is for the Python of Debian 12")
    folder = cache() / f"torch-{_KEY}"
    with only_one("torch"):
        if not folder.exists():
            _unpack(folder)
    return folder


def _unpack(folder: Path) -> None:
    work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        (work / "partial").mkdir()
        (work / "status").touch()  # as if nothing were installed: the same on each machine
        options = (f"Dir::Cache::archives={work}", f"Dir::State::status={work}/status")
        wanted = ["--no-install-recommends", "--download-only", "install", PACKAGE]
        asked = ["apt-get", "-y", "-qq", *(f"-o{option}" for option in options), *wanted]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{PACKAGE} can't be had here: {done.stderr[-300:]}")
        for package in sorted(work.glob("*.deb")):
            if package.name.startswith(("libc6_", "libc-bin_")):
                continue  # everything runs with the system's own
            subprocess.run(["dpkg-deb", "-x", package, work / "root"], check=True)
        for name in images.UNNEEDED:
            shutil.rmtree(work / "root" / name, ignore_errors=True)
        (work / "root").chmod(0o755)
        (work / "root").rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def told(place: str | Path) -> dict[str, str]:
    """Return what a program is told to find it at ``place``."""
    return {"LD_LIBRARY_PATH": ":".join(f"{place}/{name}" for name in (*_CHOSEN, *_LIBRARIES))}


def environment() -> str:
    """Make an environment of one machine that has it; return its name."""
    folder, root = environments() / ENVIRONMENT, unpacked()
    with only_one("torch-environment"):
        if not (folder / "bin/python").exists():
            made = ["/usr/bin/python3", "-m", "venv", "--without-pip", folder]
            subprocess.run(made, check=True, umask=0o022)
        site = next(folder.glob("lib/python3.*/site-packages"))
        (site / "torch.pth").write_text(f"{root / _PYTHON}\n")
        os.chmod(site / "torch.pth", 0o644)  # noqa: PTH101
    return ENVIRONMENT


def image() -> str:
    """Publish an image that has it to the cluster's registry; return its reference."""
    published = images.publish(_image, lambda _said: None)
    return published["reference"]


def server_image() -> dict[str, str]:
    """Publish a model server beside it; what PyPI has is 5.3 GB with the libraries of GPUs."""
    with only_one("image-torch-server"):
        return images.publish(_server, lambda _said: None)


def _server(say: images.Said) -> oci.Image:
    place = serving_images.PLACE
    packages = images.locked("model-server", place, ROOT / "requirements/model-server.txt")
    beside: dict[str, Path | bytes] = {
        # behind its own packages: Debian's are older than what it needs
        f"{place}/{images.PACKAGES_OF}/torch.pth": f"{IN_IMAGE}/{_PYTHON}\n".encode()
    }
    path = images.Recipe(
        "torch-path",
        digest(*beside, IN_IMAGE),
        lambda at: oci.write_layer(at, oci.files_as_tar(beside)),
    )
    recipes = (images.serving_debian(), _layer(), packages, path, serving_images.program())
    made = serving_images.server("serving-pytorch", say, recipes)
    env = {**made.environment, **told(IN_IMAGE)}
    return replace(made, name="berth/serving-torch", environment=env)


def _layer() -> images.Recipe:
    def make(folder: Path) -> oci.Layer:
        shutil.copytree(unpacked(), folder / f"root{IN_IMAGE}", symlinks=True)
        return images.packed(folder, folder / "root", f".{IN_IMAGE}")

    return images.Recipe("torch", digest(_KEY), make)


def _image(say: images.Said) -> oci.Image:
    layer = _layer().layer(say)
    base = images.tool(say)
    env = {**told(IN_IMAGE), "PYTHONPATH": f"{IN_IMAGE}/{_PYTHON}"}
    return oci.Image(
        "berth/torch",
        _KEY,
        [*base.layers, layer],
        ["/usr/bin/python3"],
        ["-c", PROGRAM],
        environment={**base.environment, **env},
        user=base.user,
        folder=base.folder,
    )
