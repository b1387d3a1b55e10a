"""Can a pod write into a volume that is made as homes are?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_noop as _n

from clusters.checks.base import Finding, green, red, unknown
from clusters.checks.bench import BenchError

if TYPE_CHECKING:
    from clusters.checks.base import Subject
    from clusters.checks.bench import Bench

NAME = "storage"
WRITER = """
with open("/data/probe", "w") as file:
    file.write("berth")
print(open("/data/probe").read())
"""


def act(subject: Subject, bench: Bench) -> Finding:
    options, grows = subject.options, True
    if options.volume_kind == "storageclass":
        path = f"/apis/storage.k8s.io/v1/storageclasses/{options.storage_class}"
        found = subject.api.ask("GET", path)
        grows = found.body.get("allowVolumeExpansion") is True
        if not found.ok:
            return red(
                NAME,
                _n("There is no storage class “%(name)s”."),
                name=options.storage_class,
                fix="kubectl get storageclass",
            )
    if not bench.image:
        return unknown(NAME, _n("Set a check image: a pod is needed to see it."))
    where = bench.namespace("a")
    claim = _make(subject, bench, where)
    bench.start(where, "writer", WRITER, claim=claim)
    try:
        code = bench.exit_code(where, "writer")
    except BenchError as error:
        why, fix = str(error)[:200], _fix(subject)
        return red(NAME, _n("The volume could not be used: %(why)s"), why=why, fix=fix)
    if code:
        return red(
            NAME,
            _n("User %(user)d can't write into the volume."),
            user=options.run_as_user,
            fix=_fix(subject),
        )
    return _done(grows=grows, name=options.storage_class)


def _done(*, grows: bool, name: str) -> Finding:
    """What can't grow is no fault; whoever chose the class may not know it."""
    if grows:
        return green(NAME, _n("A pod wrote into a volume made as homes are."))
    return green(
        NAME,
        _n(
            "A pod wrote into a volume made as homes are. Volumes can't be made larger later: the"
            " storage class “%(name)s” does not allow it (allowVolumeExpansion)."
        ),
        name=name,
    )


def _fix(subject: Subject) -> str:
    if subject.options.volume_kind == "directory":
        return "kubectl get pv -l berth.dev/kind=volume  # and: does the provisioner run?"
    return f"kubectl describe storageclass {subject.options.storage_class}"


def _make(subject: Subject, bench: Bench, where: str) -> str:
    """A claim, and its volume where directories are used, by the same builders as homes."""
    from clusters.registry import driver_options
    from runtime.drivers.kubernetes.builders import volume as builders

    options: Any = driver_options(subject.cluster)
    uid = f"check-{bench.mark}"
    if options.volume_kind == "directory":
        made = _plain(builders.volume(uid, where, options, project=uid, owner=uid), bench)
        bench.remember_volume(made["metadata"]["name"])
        bench.apply(f"/api/v1/persistentvolumes/{made['metadata']['name']}", made)
    claim = _plain(builders.claim(uid, where, options, project=uid, owner=uid), bench)
    name = str(claim["metadata"]["name"])
    bench.apply(f"/api/v1/namespaces/{where}/persistentvolumeclaims/{name}", claim)
    return name


def _plain(obj: dict[str, Any], bench: Bench) -> dict[str, Any]:
    """Not marked as a workload's: nothing may take it for one."""
    obj["metadata"]["labels"] = bench.labels()
    return obj
