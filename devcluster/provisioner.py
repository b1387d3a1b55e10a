"""Makes and wipes the directories of PersistentVolumes that ask for one.

A volume asks by its annotation ``berth.dev/directory``; nothing outside the one base folder is
touched, whatever the annotation or a link inside the folder says.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from devcluster.kube import Kube, KubeError, path_of

DIRECTORY = "berth.dev/directory"
OWNER = "berth.dev/owner-uid"
FINALIZER = "berth.dev/directory"
PROTECTION = "kubernetes.io/pv-protection"
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
WIPING = ".wiping-"
MARKER = ".berth-devcluster"  # in a folder that was made here, and may go with the cluster
PAUSE_S = 1.0
LARGEST_UID = 2**31


class RefusedError(Exception):
    """The volume asks for something that is not given."""


@dataclass(frozen=True)
class Wish:
    name: str
    owner: int


def wish(volume: Mapping[str, Any], base: Path) -> Wish | None:
    """What a volume asks for; None when it asks for nothing."""
    metadata = volume["metadata"]
    annotations = metadata.get("annotations") or {}
    place = annotations.get(DIRECTORY)
    if place is None:
        return None
    parent, _, name = place.rpartition("/")
    if parent != str(base) or not NAME.fullmatch(name):
        raise RefusedError(f"{place} is not a plain name under {base}")
    if (volume["spec"].get("hostPath") or {}).get("path") != place:
        raise RefusedError(f"the annotation names {place} and the volume another path")
    owner = annotations.get(OWNER, "")
    if not owner.isascii() or not owner.isdigit() or not 0 < int(owner) < LARGEST_UID:
        raise RefusedError(f"{OWNER} is no user number: {owner!r}")
    return Wish(name, int(owner))


class Directories:
    """The base folder, held open: a path that is swapped under us leads nowhere else."""

    def __init__(self, base: Path) -> None:
        if not base.exists():
            base.mkdir(mode=0o711, parents=True)
            (base / MARKER).touch()
        self.fd = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        for name in os.listdir(self.fd):  # noqa: PTH208 (by descriptor)
            if name.startswith(WIPING):
                self.remove(name)

    def make(self, wanted: Wish) -> bool:
        """Whether it was made now; what is there already is left as it is."""
        try:
            os.mkdir(wanted.name, mode=0o700, dir_fd=self.fd)
        except FileExistsError:
            return False
        folder = os.open(wanted.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self.fd)
        try:
            os.fchown(folder, wanted.owner, wanted.owner)
            os.fchmod(folder, 0o700)
        finally:
            os.close(folder)
        return True

    def wipe(self, name: str) -> None:
        """Out of the way first: a new volume of that name never sees what is being wiped."""
        gone = f"{WIPING}{name}-{time.time_ns()}"
        try:
            os.rename(name, gone, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except FileNotFoundError:
            return
        self.remove(gone)

    def remove(self, name: str) -> None:
        # Descends by file descriptors, so a link that is put in its way is removed, not followed,
        # and needs no stack: folders may lie in one another deeper than ours is.
        done = subprocess.run(
            ["rm", "-rf", "--one-file-system", "--", f"/proc/self/fd/{self.fd}/{name}"],
            pass_fds=[self.fd],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise OSError(done.stderr.strip()[-500:])


class Provisioner:
    def __init__(self, kube: Kube, base: Path) -> None:
        self.kube, self.base = kube, base
        self.directories = Directories(base)

    def run(self) -> None:
        while True:
            try:
                self.follow()
            except (KubeError, httpx.HTTPError, OSError) as error:
                say(f"again in {PAUSE_S:.0f} s: {error}")
                time.sleep(PAUSE_S)

    def follow(self) -> None:
        path = path_of("v1", "PersistentVolume")
        listed = self.kube.request("GET", path)
        for volume in listed["items"]:
            self.settle(volume)
        for event in self.kube.watch(path, listed["metadata"]["resourceVersion"]):
            if event["type"] == "ERROR":
                return
            if event["type"] in ("ADDED", "MODIFIED"):
                self.settle(event["object"])

    def settle(self, volume: Mapping[str, Any]) -> None:
        """One volume that can't be had must not hold up the others."""
        name = volume["metadata"]["name"]
        try:
            wanted = wish(volume, self.base)
            if wanted:
                self.settle_one(volume, wanted)
        except RefusedError as refusal:
            say(f"{name}: refused: {refusal}")
        except OSError as error:
            say(f"{name}: {error}")

    def settle_one(self, volume: Mapping[str, Any], wanted: Wish) -> None:
        metadata = volume["metadata"]
        finalizers = metadata.get("finalizers") or []
        if not metadata.get("deletionTimestamp"):
            if FINALIZER not in finalizers:
                self.set_finalizers(volume, [*finalizers, FINALIZER])
            if self.directories.make(wanted):
                say(f"{metadata['name']}: made {wanted.name} for {wanted.owner}")
        elif FINALIZER in finalizers and PROTECTION not in finalizers:
            self.directories.wipe(wanted.name)
            self.set_finalizers(volume, [f for f in finalizers if f != FINALIZER])
            say(f"{metadata['name']}: wiped {wanted.name}")

    def set_finalizers(self, volume: Mapping[str, Any], finalizers: list[str]) -> None:
        """Of exactly the version that was seen: a newer one comes by itself."""
        metadata = volume["metadata"]
        body = {
            "metadata": {
                "finalizers": finalizers,
                "resourceVersion": metadata["resourceVersion"],
            }
        }
        try:
            self.kube.patch(path_of("v1", "PersistentVolume", name=metadata["name"]), body)
        except KubeError as error:
            if error.status not in (httpx.codes.CONFLICT, httpx.codes.NOT_FOUND):
                raise


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="devcluster.provisioner")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--base", type=Path, required=True)
    chosen = parser.parse_args()
    Provisioner(Kube(chosen.kubeconfig), chosen.base).run()


if __name__ == "__main__":
    main()
