"""The engine's way to clusters (``runtime.ports.Places``), since it may not import this app."""

from collections.abc import Sequence

from clusters import admission, registry
from clusters.models import Cluster
from runtime.ports import AdmissionRequest, Granted, Waiting
from runtime.protocol import Driver, Router


class ClusterPlaces:
    def keys(self) -> Sequence[str]:
        return list(Cluster.objects.values_list("key", flat=True))

    def driver_for(self, cluster_key: str) -> Driver:
        return registry.driver_for(cluster_key)

    def router(self) -> Router:
        return registry.router()

    def admit(self, request: AdmissionRequest) -> Granted | Waiting:
        return admission.admit(request)

    def release(self, uid: str) -> None:
        admission.release(uid)
