"""Brings the cluster up; what runs already is left alone, so it may be asked again."""

import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from devcluster import (
    addons,
    checks,
    control_plane,
    fleet,
    groups,
    images,
    katib,
    kserve,
    kueue,
    node,
    pki,
    state,
    status,
    storage,
    training,
)
from devcluster.kube import Kube
from devcluster.layout import ROOT, Layout, volumes
from devcluster.processes import Processes
from devcluster.programs import FOR_PODS, OF_THE_CLUSTER, build, fetch, unbuilt
from tools.setup_shell import SetupError, run, say, step

KUEUE_PATIENCE_S = 60


def up(layout: Layout, *, whole: bool = True) -> None:
    """Not ``whole``: pods run and policies hold; fleet, queue and metrics are left to another."""
    begun = time.monotonic()
    checks.require(layout)
    prepare(OF_THE_CLUSTER if whole else FOR_PODS)
    layout.made()
    cluster = Cluster(layout)
    cluster.configure()
    cluster.control_plane()
    # Much of it is waiting, so the parts that need only the API server go side by side.
    parts = [cluster.node, cluster.publish_all]
    parts += [cluster.kueue, cluster.fleet, cluster.metrics] if whole else []
    with ThreadPoolExecutor(len(parts)) as pool:
        for done in [pool.submit(part) for part in parts]:
            done.result()
    if whole:
        cluster.training()
    if problems := status.faults(layout, ended=False, whole=whole):
        raise SetupError("\n".join(problems))
    state.write(layout, cluster.images, cluster.kube)
    what = "up" if whole else "ready for pods"
    say(f"The cluster is {what} ({time.monotonic() - begun:.1f} s): KUBECONFIG={layout.admin}")


def prepare(names: tuple[str, ...]) -> None:
    """Packages and programs, once per machine; the network is used while the compiler works."""
    if packages := checks.lacking_packages():
        with step(f"Installing from Debian: {', '.join(packages)}"):
            checks.install_packages()
    wanted = unbuilt(names)
    with ThreadPoolExecutor(2) as pool:
        sources = [pool.submit(fetch, program) for program in wanted]
        layers = pool.submit(images.make_layers, lambda text: say(f"  {text} …"))
        for program, source in zip(wanted, sources, strict=True):
            source.result()
            say(f"  building {program.name} {program.version} (once per version) …")
            build(program, lambda text: say(f"  built {text}"))
        layers.result()


@contextmanager
def timed(title: str) -> Any:
    """One line with the seconds that it took."""
    begun = time.monotonic()
    yield
    say(f"  {title}: {time.monotonic() - begun:.1f} s")


class Cluster:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.processes = Processes(layout)
        self.images: dict[str, dict[str, str]] = {}

    def configure(self) -> None:
        pki.make(self.layout)
        for part in (control_plane, node, addons, fleet, kueue):
            part.write_configuration(self.layout)
        node.make_network(self.layout)
        groups.make(self.layout)

    def start(self, name: str, command: Iterable[object]) -> None:
        self.processes.start(name, command)

    def control_plane(self) -> None:
        layout = self.layout
        with timed("etcd and the API server"):
            self.start("etcd", control_plane.etcd(layout))
            self.start("registry", addons.registry(layout))
            self.start("containerd", node.containerd(layout))
            self.start("kube-apiserver", control_plane.apiserver(layout))
            for make in images.FIRST:
                self.publish(make)
            self.kube = Kube(layout.admin)
            self.processes.wait("kube-apiserver", self.kube.ready)
        self.start("kube-controller-manager", control_plane.controller_manager(layout))
        self.start("kube-scheduler", control_plane.scheduler(layout))

    # --- Parts that go side by side ---------------------------------------------------------------

    def node(self) -> None:
        layout = self.layout
        with timed("containerd, kubelet and the node"):
            self.processes.wait("containerd", lambda: node.containerd_ready(layout))
            self.start("kubelet", node.kubelet(layout))
            self.start("kube-proxy", node.kube_proxy(layout))
            self.start("provisioner", provisioner(layout))
            self.processes.wait("kubelet", lambda: node.ready(self.kube))
            node.advertise(self.kube)
        # It ends at once when its node is not there yet.
        self.start("kube-router", node.kube_router(layout))
        self.processes.wait("kube-router", node.kube_router_ready)
        self.apply(addons.dns_objects(self.images["coredns"]["reference"]))
        with timed("DNS answers"):
            self.until("DNS", lambda: addons.dns_ready(self.kube))
        if storage.has():
            with timed("storage with snapshots that grows"):
                storage.start(layout, self.processes, self.kube)

    def metrics(self) -> None:
        with timed("metrics"):
            self.start("metrics-server", addons.metrics_server(self.layout))
            self.apply(addons.metrics_objects(self.layout))
            self.until("metrics", lambda: addons.api_available(self.kube, "v1beta1.metrics.k8s.io"))

    def fleet(self) -> None:
        with timed("simulated nodes"):
            self.start("kwok", fleet.kwok(self.layout))
            fleet.create(self.kube)
            self.until("simulated nodes", lambda: fleet.ready(self.kube))

    def kueue(self) -> None:
        layout = self.layout
        with timed("Kueue"):
            first = kueue.first_objects(layout)
            heads = [i for i in first if i["kind"] in ("Namespace", "CustomResourceDefinition")]
            self.apply(heads)
            self.until("Kueue's kinds", lambda: kueue.established(self.kube, heads))
            self.apply([item for item in first if item not in heads])
            for folder in (kueue.METRICS_CERTIFICATES, kueue.VISIBILITY_CERTIFICATES):
                Path(folder).mkdir(parents=True, exist_ok=True)
            self.start("kueue", kueue.kueue(layout))
            self.processes.wait("kueue", kueue.ready, KUEUE_PATIENCE_S)
            self.apply(kueue.last_objects(layout))

    def training(self) -> None:
        """Last: only what trains on several replicas waits for it."""
        if training.has():
            with timed("operators of training"):
                training.write_configuration(self.layout)
                training.start(self.layout, self.processes, self.kube)
                self.images |= training.published()
        if katib.has():
            with timed("Katib"):
                self.images |= katib.start(self.layout, self.processes, self.kube)
        if kserve.has():
            with timed("KServe"):
                kserve.start(self.layout, self.processes, self.kube)

    def publish_all(self) -> None:
        with timed("images in the registry and on the node"):
            self.processes.wait("containerd", lambda: node.containerd_ready(self.layout))
            for make in images.LATER:
                self.publish(make)
                self.pull(self.images[make.__name__]["reference"])

    def publish(self, make: Callable[[images.Said], Any]) -> None:
        name = make.__name__
        self.processes.wait("registry", lambda: checks.taken("127.0.0.1", images.REGISTRY_PORT))
        self.images[name] = images.publish(make, lambda text: say(f"  {text} …"))

    def pull(self, reference: str) -> None:
        """The first pod should not be the one that waits for it."""
        if reference not in run(node.ctr(self.layout, "images", "list", "-q")).split():
            run(node.ctr(self.layout, "images", "pull", "--plain-http", reference))

    # --- Help for the parts -----------------------------------------------------------------------

    def apply(self, items: Iterable[dict[str, Any]]) -> None:
        for item in items:
            self.kube.apply(item)

    def until(self, what: str, probe: Callable[[], Any]) -> None:
        try:
            self.kube.until(what, probe, 180)
        except TimeoutError as error:
            raise SetupError(str(error)) from error


def provisioner(layout: Layout) -> Iterable[object]:
    folder = volumes()
    return [
        "env",
        f"PYTHONPATH={ROOT}",
        sys.executable,
        "-m",
        "devcluster.provisioner",
        "--kubeconfig",
        layout.kubeconfig("provisioner"),
        "--base",
        folder,
    ]
