"""A stub of an API server for each test, and a driver of it."""

from collections.abc import Iterator

import pytest

from runtime.drivers.kubernetes.driver import KubernetesDriver
from tests.drivers.kubernetes.stub import Stub
from tests.drivers.kubernetes.town import town

__all__ = ["town"]


@pytest.fixture
def stub(tmp_path) -> Iterator[Stub]:
    made = Stub(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def driver(stub) -> Iterator[KubernetesDriver]:
    made = stub.driver()
    yield made
    made.close()
