"""Any cluster's kubeconfig (kind, k3d, a cloud's) as the tests read one, and what it can't say.

Ours is JSON with one cluster and one user and everything inside it. A test that asks for what only
`make cluster-up` knows (its images, where this machine is) is skipped with that name.
"""

import atexit
import base64
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

INLINE = (
    ("cluster", "certificate-authority"),
    ("user", "client-certificate"),
    ("user", "client-key"),
)
PROGRAMS = ("exec", "auth-provider")
IMAGE = "BERTH_TEST_CLUSTER_IMAGE"


class Known(dict[str, Any]):
    """What is known of a cluster; asking for more leaves the test out, by name."""

    def __missing__(self, name: str) -> Any:
        how = f"; {IMAGE} names one with python3" if name == "images" else ""
        pytest.skip(
            f"KUBECONFIG does not say “{name}” of its cluster{how} (docs/dev/devcluster.md)"
        )


def known(path: Path, version: str = "") -> Known:
    """Return what a kubeconfig alone says, with a copy of it that the tests' client reads."""
    folder = Path(tempfile.mkdtemp(prefix="berth-kubeconfig-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = plain(yaml.safe_load(path.read_text()), path.parent)
    copy = folder / "kubeconfig.json"
    copy.touch(mode=0o600)
    copy.write_text(json.dumps(made))
    found = Known(kubeconfig=str(copy), server=made["clusters"][0]["cluster"]["server"])
    if version:
        found["version"] = version
    if kubectl := shutil.which("kubectl"):
        found["programs"] = Known(kubectl=kubectl)
    if image := os.environ.get(IMAGE):
        found["images"] = Known(tool={"reference": image})
    return found


def plain(document: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the current context alone, with files of it inside. Skips what a program signs in."""
    context = _named(document, "contexts", document.get("current-context"), "context")
    parts = {
        "cluster": _named(document, "clusters", context.get("cluster"), "cluster"),
        "user": _named(document, "users", context.get("user"), "user"),
    }
    if wanted := next((name for name in PROGRAMS if name in parts["user"]), None):
        pytest.skip(
            f"the user of KUBECONFIG signs in by a program ({wanted}): make a kubeconfig with a"
            " token or a certificate"
        )
    for part, name in INLINE:
        if file := parts[part].pop(name, None):
            content = (folder / file).read_bytes()
            parts[part][f"{name}-data"] = base64.b64encode(content).decode()
    if file := parts["user"].pop("tokenFile", None):
        parts["user"]["token"] = (folder / file).read_text().strip()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": parts["cluster"]}],
        "users": [{"name": "u", "user": parts["user"]}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


def _named(document: Mapping[str, Any], group: str, name: Any, part: str) -> dict[str, Any]:
    for row in document.get(group) or ():
        if row.get("name") == name:
            return dict(row.get(part) or {})
    pytest.skip(f"KUBECONFIG names {name!r}, which is not among its {group}")
