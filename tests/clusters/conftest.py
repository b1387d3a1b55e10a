from uuid import uuid4

import pytest

from clusters import registry, services
from runtime.ports import AdmissionRequest
from runtime.protocol import Device, Health
from runtime.spec import Resources


@pytest.fixture(autouse=True)
def _fresh_world():
    registry.reset()
    yield
    registry.reset()


@pytest.fixture
def machine(db):
    """This machine with so much of everything."""

    def make(*, cpu_milli=0, memory_mib=0, gpus=()):
        cluster = services.ensure_local_cluster()
        devices = tuple(
            Device(uuid=f"GPU-{i}", index=i, name=name, memory_mib=80_000)
            for i, name in enumerate(gpus)
        )
        return services.health_store(
            key=cluster.key,
            health=Health(True, "1", cpu_milli, memory_mib, devices, {"users": True}),
        )

    return make


@pytest.fixture
def ask():
    """A request to the queue."""

    def make(uid=None, *, cpu_milli=0, memory_mib=0, gpus=0, flavor=""):
        return AdmissionRequest(
            cluster_key="local",
            uid=str(uid or uuid4()),
            kind="thing",
            project_uid=str(uuid4()),
            owner_uid=str(uuid4()),
            resources=Resources(cpu_milli, memory_mib, gpus, flavor),
        )

    return make
