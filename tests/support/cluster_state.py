"""Which Kubernetes cluster the tests use, and what they must know of it."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import pytest

from devcluster import state
from devcluster.layout import Layout
from tests.support import plain_kubeconfig

NEEDED = ("kubeconfig", "node", "host", "registry", "images", "volumes", "programs")


def cluster_state() -> dict[str, Any]:
    """The state of ``make cluster-up``, or the file that ``BERTH_TEST_CLUSTER`` names.

    ``KUBECONFIG`` fills in for a state that names none. Alone it does not say which images the
    cluster can pull, where volumes lie and what this machine is to its pods: what needs none of
    that runs, a test that asks for it is left out by name.
    """
    chosen, access = os.environ.get("BERTH_TEST_CLUSTER"), os.environ.get("KUBECONFIG")
    found = json.loads(Path(chosen).read_text()) if chosen else state.read(Layout.usual())
    if found is None and (word := os.environ.get("BERTH_TEST_CLUSTER_WORD")):
        pytest.fail(f"the cluster of this run is not up: {Path(word).read_text()} (see above)")
    if found is None and access:
        return _alone(access)
    if found is None:
        pytest.skip("there is no cluster; `make cluster-up` makes one")
    if access:
        found.setdefault("kubeconfig", access)
    lacking = [name for name in NEEDED if name not in found]
    if lacking:
        pytest.skip(f"the cluster's state file lacks {', '.join(lacking)} (devcluster/README.md)")
    return dict(found)


def lacking(what: str, *, is_built: bool = True) -> NoReturn:
    """Leave a test out on somebody's own cluster, and where an operator was never built here; else
    that of the tests has all that they need.
    """
    is_own = not os.environ.get("BERTH_TEST_CLUSTER_WORD") or os.environ.get("BERTH_TEST_CLUSTER")
    if is_built and not is_own:
        pytest.fail(f"The cluster of this run has no {what}.")
    pytest.skip(f"The cluster has no {what}.")


@cache
def _alone(access: str) -> dict[str, Any]:
    return plain_kubeconfig.known(Path(access.split(os.pathsep, maxsplit=1)[0]))
