"""The Kubernetes driver: ``runtime.protocol.Driver`` and every capability, over one client."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import structlog

from runtime.capabilities.clusters import NodeChanges, NodeFacts
from runtime.capabilities.experiments import ExperimentSpec, Proposal, TrialEnd
from runtime.capabilities.programs import Program, Tried
from runtime.capabilities.queues import QueueTree
from runtime.capabilities.tenants import KubeToken, TenantSpec
from runtime.capabilities.volumes import Measured
from runtime.capabilities.workloads import EventLines, Inspection
from runtime.drivers.kubernetes import ending, inspection, observe, oneshot, shapes
from runtime.drivers.kubernetes.access import Check, KubeAccess, PodAddresses, check_from_settings
from runtime.drivers.kubernetes.answers import in_words, raise_for
from runtime.drivers.kubernetes.api_server import may_list
from runtime.drivers.kubernetes.apply import Workloads
from runtime.drivers.kubernetes.builders.volume import OUR_OWN, resolved
from runtime.drivers.kubernetes.client import KubeClient, Object
from runtime.drivers.kubernetes.cluster_cache import World
from runtime.drivers.kubernetes.experiments import Experiments
from runtime.drivers.kubernetes.inspection import Locator, Lookup, nowhere
from runtime.drivers.kubernetes.logs import Logs
from runtime.drivers.kubernetes.measuring import Measuring
from runtime.drivers.kubernetes.metrics import Exporters, Metrics
from runtime.drivers.kubernetes.names import key_of, queue_object, uid_of
from runtime.drivers.kubernetes.nodes import facts_of
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.kubernetes.pace import Pace, Versions
from runtime.drivers.kubernetes.queues import Queues
from runtime.drivers.kubernetes.snapshots import Snapshots
from runtime.drivers.kubernetes.tenant import Tenants
from runtime.drivers.kubernetes.volumes import Volumes
from runtime.drivers.kubernetes.watch import Watch
from runtime.protocol import DriverError, Health, InvalidSpec, Observation, Seen
from runtime.reasons import Reason
from runtime.spec import Backing, Placement, WorkloadSpec
from runtime.training import KATIB, KINDS, OPERATORS
from runtime.use_sources import DeviceUse, Holder, UseSource

log = structlog.get_logger(__name__)

Pods = Sequence[Object | None]

_MANY = 16
_NODES_S = 600.0
# What a pod is kept from by Kubernetes itself; how many processes it may have is the node's.
_ISOLATION = {
    "users": True,
    "proc": True,
    "tmp": True,
    "shm": True,
    "memory": True,
    "cpu": True,
    "pids": False,
    "gpu": True,
    "read_only_volumes": True,
    "memory_secrets": True,
}


class KubernetesDriver:
    """Thread-safe. ``options`` and ``key`` may be read; ``close`` ends its connections."""

    def __init__(
        self,
        access: KubeAccess,
        options: KubernetesOptions,
        key: str,
        lookup: Lookup = nowhere,
        *,
        check: Check | None = None,
    ) -> None:
        self.options = options
        self.key = key
        self.client = KubeClient(access, check=check or check_from_settings())
        self._pods = PodAddresses(options.pod_cidrs)
        operated = [(s.VERSION, s.PLURAL) for s in shapes.of_operators(options.operators)]
        self._locator = Locator(self.client, options, lookup, operated)
        self._volumes = Volumes(self.client, options, self._locator)
        self._snapshots = Snapshots(self.client, options, self._volumes)
        self._measuring = Measuring(self.client, options, self._volumes)
        self._logs = Logs(self.client)
        self._world: World | None = None  # what is being watched by this process
        self._watch: Watch | None = None
        self._work = Workloads(
            self.client,
            options,
            self._locator,
            self._volumes,
            self._logs,
            watched=lambda: self._world,
        )
        self._metrics = Metrics(self.client, options, self._locator)
        self._exporters = Exporters(self.client, options, self._pods)
        self._tenants = Tenants(self.client, options)
        self._queues = Queues(self.client, options)
        self._experiments = Experiments(self.client, options)
        self._versions = Versions()
        self._nodes: tuple[float, list[NodeFacts]] = (0.0, [])
        self._lock = threading.Lock()

    def close(self) -> None:
        self.client.close()

    # --- the verbs ------------------------------------------------------------------------------
    def ensure(self, spec: WorkloadSpec) -> Mapping[str, object]:
        return self._work.ensure(spec)

    def observe(self, uids: Iterable[str]) -> Mapping[str, Observation]:
        """Ask the API server, not the memory of the watch: what was just made must be seen."""
        wanted = list(uids)
        if len(wanted) > _MANY:
            known = {o.uid: o for o in self._list()}
            return {u: known.get(u) or self._missing(u) for u in wanted}
        return {uid: self._look(uid) for uid in wanted}

    def refresh_secrets(self, spec: WorkloadSpec) -> None:
        self._work.refresh(spec)

    def scale(self, spec: WorkloadSpec) -> None:
        self._work.scale(spec)

    def stop(self, uid: str, *, grace_s: float) -> None:
        self._work.stop(uid, grace_s=grace_s)

    def tell(self, uid: str, notice: Mapping[str, str]) -> None:
        self._work.tell(uid, notice)

    def remove(self, uid: str) -> None:
        self._work.remove(uid)

    def list_owned(self) -> Iterable[Observation]:
        """Workloads only: a namespace without a row may hold volumes, which are data."""
        if (world := self._world) is not None:
            return [*(self._told(o) for o in world.workloads()), *world.lone_pods()]
        pairs, pods = self._work.all_with_pods()
        owners = {key_of(found): uid_of(found) for found, _pod in pairs}
        lone = ending.lone(pods, owners, set(owners.values()))
        return [*self._judge_all(pairs), *lone]

    def adopt(self, uid: str) -> None:
        self._work.adopt(uid)

    def probe(self) -> Health:
        """Two cheap reads; nodes are listed at most every ten minutes, never while watching."""
        version = self.client.read("/version")
        if version.status == 401:  # noqa: PLR2004 - it would be refused all else too
            raise_for(version)
        ready = self.client.read("/readyz")
        nodes = [n for n in self._node_facts() if n.ready and n.schedulable]
        good = ready.status == 200  # noqa: PLR2004
        told = self.client.read("/apis")
        groups = (told.json() or {}).get("groups") if told.status == 200 else None  # noqa: PLR2004
        there = {v.get("groupVersion") for group in groups or () for v in group["versions"]}
        kinds = {api: self._kinds(api) for api, _kind in KINDS.values() if api in there}
        known = groups is not None and None not in kinds.values()
        operators = (
            *(word for word, api in OPERATORS.items() if api in there),
            *(word for word, (api, kind) in KINDS.items() if kind in (kinds.get(api) or ())),
        )
        return Health(
            reachable=good,
            version=str((version.json() or {}).get("gitVersion", "")),
            cpu_milli=sum(n.cpu_milli for n in nodes),
            memory_mib=sum(n.memory_mib for n in nodes),
            isolation=dict(_ISOLATION),
            message="" if good else in_words(ready),
            operators=operators if known else None,
        )

    # --- SupportsWatch, SupportsNodes -----------------------------------------------------------
    def watch(self, *, stop: Callable[[], bool]) -> Iterator[list[Observation] | None]:
        seen = World(queue_object(self.options.namespace_prefix, ""))
        watch = self._watch = Watch(self.client, self.options, seen, self._pods.check)
        told: dict[str, int] = {}
        pace = Pace()
        first = True
        try:
            for changed in watch.follow(stop, pace.seconds_left):
                if changed is None:
                    yield None
                    continue
                found = seen.everything() if first else seen.take() if changed else []
                self._world = seen
                batch = [self._told(o) for o in found]
                news = [o for o in batch if told.get(o.uid) != o.version]
                told.update((o.uid, o.version) for o in news)
                for gone in [o.uid for o in news if o.seen == Seen.MISSING]:
                    told.pop(gone, None)
                # An empty batch says "alive", or lets somebody fetch what changed of nodes.
                yield pace.now(news)
                first = False
        finally:
            if self._world is seen:
                self._world = None

    def node_changes(self) -> NodeChanges | None:
        return None if self._world is None else self._world.take_nodes()

    # --- SupportsVolumes ------------------------------------------------------------------------
    def ensure_volume(
        self,
        volume_uid: str,
        *,
        project: str,
        owner: str,
        namespace: str = "",
        backing: Backing | None = None,
    ) -> None:
        self._volumes.ensure(
            volume_uid, project=project, owner=owner, namespace=namespace, backing=backing
        )

    def remove_volume(self, volume_uid: str) -> None:
        self._volumes.remove(volume_uid)

    def volume_usage(self, volume_uid: str) -> int | None:
        """Nobody knows it at once; ``measure_volume`` finds it out.

        Kubernetes tells it only to who may reach the nodes themselves, which Berth may not.
        """
        del volume_uid
        return None

    def measure_volume(self, volume_uid: str, placement: Placement) -> Measured | None:
        return self._measuring.measure(volume_uid, placement)

    def end_measuring(self, volume_uid: str) -> None:
        self._measuring.end(volume_uid)

    # --- SupportsGrowth, SupportsSnapshots, SupportsMoves ---------------------------------------
    def can_grow(self, backing: Backing) -> bool:
        return self._volumes.growth.can(backing)

    def can_snapshot(self, backing: Backing) -> bool:
        return self._snapshots.can(backing)

    def ensure_snapshot(self, snapshot_uid: str, *, volume_uid: str, backing: Backing) -> int:
        return self._snapshots.ensure(snapshot_uid, volume_uid=volume_uid, backing=backing)

    def restore_snapshot(self, snapshot_uid: str, *, volume_uid: str, backing: Backing) -> None:
        self._snapshots.restore(snapshot_uid, volume_uid=volume_uid, backing=backing)

    def remove_snapshot(self, snapshot_uid: str, *, volume_uid: str, backing: Backing) -> None:
        del backing
        self._snapshots.remove(snapshot_uid, volume_uid=volume_uid)

    def can_move(self, backing: Backing) -> bool:
        """Where the volume is ours and only the claim changes; a storage class owns its own."""
        return resolved(backing, self.options).kind in OUR_OWN

    def move_volume(
        self, volume_uid: str, *, project: str, owner: str, backing: Backing, namespace: str = ""
    ) -> None:
        if not self.can_move(backing):
            raise InvalidSpec("What this volume lies on can't be handed to another project.")
        self._volumes.move(
            volume_uid, project=project, owner=owner, backing=backing, namespace=namespace
        )

    def _kinds(self, api: str) -> set[str] | None:
        """Return the kinds of an API that we may use; None: it did not say.

        A cluster that was attached with earlier roles has no right on those of the operator of
        training. Katib's are in a place of their own, where its searches say it.
        """
        answer = self.client.read(f"/apis/{api}")
        told = answer.json() if answer.status == 200 else None  # noqa: PLR2004
        if not isinstance(told, dict):
            return None
        found = {str(one.get("name")) for one in told.get("resources") or ()}
        needed = {k for word, (its, k) in KINDS.items() if its == api and word != KATIB} & found
        group = api.partition("/")[0]
        return found - {kind for kind in needed if not may_list(self.client, group, kind)}

    # --- SupportsLogs, SupportsMetrics, SupportsDeviceUse -----------------------------------------
    def read_log(
        self, uid: str, *, offset: int = 0, limit: int = 65536, replica: int = 0
    ) -> tuple[bytes, int]:
        found = self._work.find(uid)
        pods = [] if found is None else self._work.pods_of(found)
        if found is None or not 0 <= replica < len(pods):
            return b"", 0
        return self._logs.read(found, pods[replica], replica, offset=offset, limit=limit)

    def read_events(
        self, uid: str, *, launch: int, cursor: str = "", limit: int = 65536
    ) -> EventLines:
        """They stand among the lines of the log of its first pods (``names.EVENTS``)."""
        if (place := self._locator.workload(uid)) is None:
            return EventLines(b"", cursor)
        found = self._work.find(uid)
        is_its = found is not None and observe.launch_of(found) == launch
        pods = self._work.first_pods_of(found) if found is not None and is_its else []
        return self._logs.read_events(pods, (place[1], place[0]), launch, cursor, limit)

    def usage(self, uids: Iterable[str]) -> Mapping[str, Mapping[str, float]]:
        return self._metrics.usage(uids)

    def device_use(
        self, holders: Iterable[Holder], sources: Iterable[UseSource]
    ) -> Sequence[DeviceUse]:
        return self._exporters.use(holders, sources)

    # --- SupportsInspection, SupportsPrograms ---------------------------------------------------
    def inspect(
        self, where: Mapping[str, str], *, for_owner: bool, most: int, seconds: float
    ) -> Inspection:
        return inspection.inspect(
            self.client, where, for_owner=for_owner, most=most, seconds=seconds
        )

    def try_program(self, program: Program) -> Tried:
        return oneshot.step(self.client, self.options, program)

    # --- SupportsTenants, Queues, Standing, Experiments, KubeTokens -----------------------------
    def ensure_tenant(self, spec: TenantSpec) -> tuple[str, ...]:
        put_back = self._tenants.ensure(spec)
        if put_back:  # it may be a new namespace of the old name, with none of the claims
            self._volumes.forget_in(spec.namespace)
        return put_back

    def remove_tenant(self, uid: str, namespace: str) -> None:
        self._tenants.remove(uid, namespace)

    def ensure_queues(self, tree: QueueTree) -> tuple[str, ...]:
        return self._queues.ensure(tree)

    def remove_queues(self) -> None:
        self._queues.remove()

    def waiting_in(self, namespace: str) -> tuple[str, ...]:
        return self._queues.waiting_in(namespace)

    def stand(self, uid: str, *, priority: str, waits: bool) -> bool:
        return self._work.stand(uid, priority=priority, waits=waits)

    def ensure_experiment(self, spec: ExperimentSpec) -> tuple[Proposal, ...]:
        return self._experiments.ensure(spec)

    def tell_trial(self, spec: ExperimentSpec, name: str, end: TrialEnd) -> None:
        self._experiments.tell(spec, name, end)

    def remove_experiment(self, uid: str) -> None:
        self._experiments.remove(uid)

    def list_experiments(self) -> Iterable[Observation]:
        return self._experiments.owned()

    def kube_token(self, *, namespace: str, user: str, grant: str, seconds: int) -> KubeToken:
        return self._tenants.token(namespace=namespace, user=user, grant=grant, seconds=seconds)

    # --- inside ---------------------------------------------------------------------------------
    def _look(self, uid: str) -> Observation:
        made = self._work.just_made(uid)
        if made is not None and self._world is not None:
            return self._judged(made, self._world.pods_of(made))
        found = self._work.find(uid)
        if found is None:
            return self._missing(uid)
        return self._judged(found, self._work.pods_of(found))

    def _list(self) -> list[Observation]:
        return self._judge_all(self._work.all_with_pods()[0])

    def _judge_all(self, pairs: Iterable[tuple[Object, Pods]]) -> list[Observation]:
        return [self._judged(found, pods, ask=False) for found, pods in pairs]

    def _judged(self, found: Object, pods: Pods, *, ask: bool = True) -> Observation:
        """``pods``: the newest of each replica."""
        world = self._world
        if world is not None:
            sights = world.sights(found, pods)
        else:
            quiet = not ask or all(pod is not None and observe.is_ready(pod) for pod in pods)
            quiet = quiet or not observe.replicas_of(found)
            events = () if quiet else tuple(self._work.events_of(found))
            sights = [observe.Sight(found, pod, events) for pod in pods]
        return self._told(shapes.of_owner(found).observe(sights))

    def _told(self, found: Observation) -> Observation:
        """Lead nobody to an address that can't be a pod's, whatever the cluster says."""
        places = {found.address, *(one.address for one in found.replicas)} - {""}
        hosts = {place.rpartition(":")[0].strip("[]") for place in places}
        if why := next(filter(None, map(self._pods.refusal, sorted(hosts))), None):
            log.warning("kubernetes.pod_address", uid=found.uid, error=why)
            found = replace(
                found,
                seen=Seen.STARTING,
                address="",
                reason=Reason.ROUTING,
                message=why,
                replicas=tuple(replace(one, address="") for one in found.replicas),
            )
        return self._versions.stamp(found)

    def _missing(self, uid: str) -> Observation:
        return self._versions.stamp(Observation(uid=uid, seen=Seen.MISSING))

    def _node_facts(self) -> list[NodeFacts]:
        if self._world is not None:
            return self._world.node_facts()
        with self._lock:
            at, known = self._nodes
            if not known or time.monotonic() - at > _NODES_S:
                try:
                    known = [facts_of(n) for n in self.client.list("v1", "nodes")]
                except DriverError:
                    return known
                self._nodes = (time.monotonic(), known)
            return known
