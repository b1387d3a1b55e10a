"""The programs of the cluster: where they come from, built once per version and kept.

Each has a small Go module of its own under ``modules/``: their versions of the Kubernetes
libraries differ, and one module would raise all of them.  ``go.sum`` pins every byte.
"""

import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from devcluster.layout import MODULES, cache
from tools.setup_shell import SetupError, digest, run

KUBERNETES = "v1.36.3"
# The public checksum database has no record of these; the committed go.sum pins them.
UNRECORDED: tuple[str, ...] = ("github.com/osrg/gobgp/v3", "sigs.k8s.io/scheduler-library")
UNRECORDED += ("sigs.k8s.io/sig-storage-lib-external-provisioner/v11",)
UNRECORDED += ("github.com/kubeflow/katib", "github.com/google/go-containerregistry/*")
VERSION = "k8s.io/component-base/version"
# The linker drops what a debugger would read (-s -w): the compiler need not write it.
NO_DEBUGGING = "-gcflags=all=-dwarf=false"
# The compiler is a short-lived program: it collects seldom, unless its memory grows large.
SELDOM = {"GOGC": "400", "GOMEMLIMIT": "2GiB"}


@dataclass(frozen=True)
class Program:
    name: str
    module: str
    version: str
    packages: tuple[str, ...] = ("",)
    flags: tuple[str, ...] = ()
    on_demand: bool = False
    binaries: tuple[str, ...] = field(default=())
    # Has a main.go of ours, which brings only what is used here of a program with many plugins.
    own_main: bool = False
    # Takes the libraries that Kubernetes uses too in the same versions (``lock`` sees to it): what
    # the compiler made of them for one is then used for all.  Without it half of the time goes
    # into the same libraries again.
    shares: bool = False
    # Libraries, each as MODULE@VERSION, that go with those versions; its own choice does not.
    newer: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return MODULES / self.name

    @property
    def names(self) -> tuple[str, ...]:
        return self.binaries or (self.name,)

    @property
    def paths(self) -> list[str]:
        return [self.module + suffix for suffix in self.packages]

    @property
    def kept(self) -> Path:
        """Named by everything that decides what the binary is."""
        parts: list[str | Path] = [
            self.folder / "go.mod",
            self.folder / "go.sum",
            " ".join(self.flags),
            *(sorted(self.folder.glob("*.go")) if self.own_main else []),
        ]
        return cache() / "bin" / f"{self.name}-{self.version}-{digest(*parts)}"

    def built(self) -> bool:
        return all((self.kept / name).is_file() for name in self.names)


SIX: tuple[str, ...] = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
SIX += ("kubelet", "kube-proxy", "kubectl")

PROGRAMS = {
    program.name: program
    for program in (
        Program("etcd", "go.etcd.io/etcd/server/v3", "v3.6.5"),
        Program(
            "kubernetes",
            "k8s.io/kubernetes",
            KUBERNETES,
            packages=tuple(f"/cmd/{name}" for name in SIX),
            binaries=SIX,
            flags=(
                f"-X {VERSION}.gitVersion={KUBERNETES}",
                f"-X {VERSION}.gitMajor=1",
                f"-X {VERSION}.gitMinor=36",
            ),
        ),
        Program(
            "kube-router",
            "github.com/cloudnativelabs/kube-router",
            "v1.6.1",
            packages=("/cmd/kube-router",),
        ),
        Program("coredns", "github.com/coredns/coredns", "v1.15.0", own_main=True, shares=True),
        Program("registry", "github.com/distribution/distribution/v3", "v3.1.2", own_main=True),
        Program("kueue", "sigs.k8s.io/kueue", "v0.19.2", packages=("/cmd/kueue",), shares=True),
        Program("kwok", "sigs.k8s.io/kwok", "v0.8.0", packages=("/cmd/kwok",), shares=True),
        Program(
            "metrics-server",
            "sigs.k8s.io/metrics-server",
            "v0.9.0",
            packages=("/cmd/metrics-server",),
            shares=True,
        ),
        Program("helm", "helm.sh/helm/v3", "v3.22.0", packages=("/cmd/helm",), on_demand=True),
        Program(
            "traefik",
            "github.com/traefik/traefik/v3",
            "v3.6.12",
            packages=("/cmd/traefik",),
            on_demand=True,
        ),
        # Object stores that the tests of loads talk to (tests/support/stores.py).
        Program(
            "versitygw",
            "github.com/versity/versitygw",
            "v1.8.0",
            packages=("/cmd/versitygw",),
            on_demand=True,
        ),
        Program("fake-gcs-server", "github.com/fsouza/fake-gcs-server", "v1.56.1", on_demand=True),
        # Storage that makes snapshots and grows (devcluster/storage.py).
        Program(
            "external-provisioner",
            "github.com/kubernetes-csi/external-provisioner/v5",
            "v5.3.0",
            packages=("/cmd/csi-provisioner",),
            binaries=("csi-provisioner",),
            on_demand=True,
            shares=True,
            newer=(
                "github.com/kubernetes-csi/csi-lib-utils@v0.24.0",
                "sigs.k8s.io/gateway-api@v1.6.0",
            ),
        ),
        Program(
            "external-snapshotter",
            "github.com/kubernetes-csi/external-snapshotter/v8",
            "v8.6.0",
            packages=("/cmd/snapshot-controller", "/cmd/csi-snapshotter"),
            binaries=("snapshot-controller", "csi-snapshotter"),
            on_demand=True,
            shares=True,
        ),
        Program(
            "external-resizer",
            "github.com/kubernetes-csi/external-resizer/v2",
            "v2.3.0",
            packages=("/cmd/csi-resizer",),
            binaries=("csi-resizer",),
            on_demand=True,
            shares=True,
        ),
        Program(
            "csi-directory",
            "github.com/container-storage-interface/spec",
            "v1.9.0",
            own_main=True,
            on_demand=True,
            shares=True,
        ),
        # Operators of training on several replicas (devcluster/training.py).
        Program(
            "mpi-operator",
            "github.com/kubeflow/mpi-operator",
            "v0.8.2",
            packages=("/cmd/mpi-operator",),
            on_demand=True,
            shares=True,
        ),
        # Its controller-runtime does not go with Kubernetes' own libraries of today.
        Program("jobset", "sigs.k8s.io/jobset", "v0.11.0", on_demand=True),
        Program(
            "trainer",
            "github.com/kubeflow/trainer/v2",
            "v2.3.0",
            packages=("/cmd/trainer-controller-manager",),
            binaries=("trainer-controller-manager",),
            on_demand=True,
            shares=True,
        ),
        # PyTorchJob and TFJob of the operator before the trainer, which many clusters still have.
        Program(
            "training-operator",
            "github.com/kubeflow/training-operator",
            "v1.9.4",
            packages=("/cmd/training-operator.v1",),
            on_demand=True,
            shares=True,
        ),
        # Chooses the values of searches (devcluster/katib.py). Its other suggestions are Python.
        Program(
            "katib",
            "github.com/kubeflow/katib",
            "v0.19.0",
            packages=(
                "/cmd/katib-controller/v1beta1",
                "/cmd/db-manager/v1beta1",
                "/cmd/suggestion/goptuna/v1beta1",
            ),
            binaries=("katib-controller", "katib-db-manager", "katib-goptuna"),
            on_demand=True,
        ),
        # Serves models (devcluster/kserve.py).
        Program(
            "kserve",
            "github.com/kserve/kserve",
            "v0.20.0",
            packages=("/cmd/manager",),
            binaries=("manager",),
            on_demand=True,
        ),
    )
}

OF_THE_CLUSTER = tuple(name for name, program in PROGRAMS.items() if not program.on_demand)
# With these pods run and policies hold; the others are a simulated fleet, a queue, and metrics.
FOR_PODS = ("etcd", "kubernetes", "kube-router", "coredns", "registry")


def binary(name: str) -> Path:
    """The path of a built program such as ``kubectl``."""
    for program in PROGRAMS.values():
        if name in program.names:
            return program.kept / name
    raise KeyError(name)


def unbuilt(names: tuple[str, ...] = OF_THE_CLUSTER) -> list[Program]:
    return [PROGRAMS[name] for name in names if not PROGRAMS[name].built()]


def go() -> str:
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    if not found:
        raise SetupError("There is no Go on this machine; the cluster's programs are built by it.")
    return found


def go_environment() -> dict[str, str]:
    unrecorded = ",".join(filter(None, [os.environ.get("GONOSUMDB", ""), *UNRECORDED]))
    return {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GONOSUMDB": unrecorded}


def fetch(program: Program) -> None:
    """The sources of one program, so that its build need not wait for the network."""
    command = [go(), "list", "-e", "-deps", "-tags", "tools", "./..."]
    run(command, env=go_environment(), cwd=program.folder)


def build(program: Program, say: Callable[[str], None]) -> None:
    """Builds what is not there; two that want the same program at once make it once."""
    with only_one(program.name):
        if not program.built():
            compiled(program, say)


@contextmanager
def only_one(what: str) -> Iterator[None]:
    """Holds back others on this machine who make the same thing."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f".{what}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def compiled(program: Program, say: Callable[[str], None]) -> None:
    """All binaries of one module, under their final name only when all are done."""
    begun, used = time.monotonic(), os.times()
    unfinished = program.kept.with_name(f"{program.kept.name}.new-{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    flags = " ".join(("-s", "-w", *program.flags))
    packages = ["."] if program.own_main else program.paths
    wanted: dict[Path | str, list[str]] = {f"{unfinished}/": packages}
    if len({path.rpartition("/")[2] for path in packages}) < len(packages):  # by one name
        wanted = {unfinished / n: [path] for n, path in zip(program.names, packages, strict=True)}
    command = [go(), "build", "-trimpath", "-buildvcs=false", f"-ldflags={flags}", NO_DEBUGGING]
    try:
        for where, paths in wanted.items():
            run(
                [*command, "-o", where, *paths],
                env=go_environment() | SELDOM,
                cwd=program.folder,
                hint="It is built again by `make cluster-build`.",
            )
        rename_versioned(program, unfinished)
        shutil.rmtree(program.kept, ignore_errors=True)
        unfinished.rename(program.kept)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    after = os.times()
    cpu = after.children_user + after.children_system
    cpu -= used.children_user + used.children_system
    say(f"{program.name} {program.version}: {time.monotonic() - begun:.0f} s, {cpu:.0f} CPU s")


def rename_versioned(program: Program, folder: Path) -> None:
    """``go build`` names a program by the end of its path: ``server`` for etcd's."""
    made = sorted(folder.iterdir())
    if len(program.names) == 1 and len(made) == 1:
        made[0].rename(folder / program.names[0])
    lacking = [name for name in program.names if not (folder / name).is_file()]
    if lacking:
        raise SetupError(f"Building {program.name} did not give {', '.join(lacking)}.")


def module_folder(program: Program, module: str = "") -> Path:
    """The module's own sources: CRDs and default manifests are read there, none is kept here.

    Or those of another ``module`` that the program is built with.
    """
    wanted = module or program.module
    done = subprocess.run(
        [go(), "list", "-m", "-json", wanted],
        cwd=program.folder,
        env={**os.environ, **go_environment()},
        capture_output=True,
        text=True,
        check=False,
    )
    folder = json.loads(done.stdout or "{}").get("Dir") if done.returncode == 0 else None
    if folder is None:
        run([go(), "mod", "download", wanted], env=go_environment(), cwd=program.folder)
        listed = run(
            [go(), "list", "-m", "-f", "{{.Dir}}", wanted],
            env=go_environment(),
            cwd=program.folder,
        )
        folder = listed.strip().splitlines()[-1]
    return Path(folder)
