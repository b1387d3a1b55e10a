"""What a pod can connect to, tried from inside.

An enforcer may learn of a new pod or of a change a moment later, on a busy machine many seconds: a
pod tries until it finds what is wanted, twice in a row, and says what it found last.
"""

from __future__ import annotations

import json
from typing import Any

from devcluster.kube import Kube
from tests.cluster.pods import phase, pod

PATIENCE_S = 60
ENDED_WITHIN_S = PATIENCE_S + 120.0

TCP = """
import json, socket, sys, time
from concurrent.futures import ThreadPoolExecutor
wanted, until = json.loads(sys.argv[1]), time.monotonic() + float(sys.argv[2])
def reaches(target):
    host, port = target.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True
found, good = {}, 0
with ThreadPoolExecutor(len(wanted)) as pool:
    while good < 2 and (not found or time.monotonic() < until):
        time.sleep(1)
        found = dict(zip(wanted, pool.map(reaches, wanted)))
        good = good + 1 if found == wanted else 0
print(json.dumps(found))
"""
# A socket of its own for each word: what was let through once goes on on the same one.
UDP = """
import json, socket, sys, time
(target, wanted), until = json.loads(sys.argv[1]), time.monotonic() + float(sys.argv[2])
host, port = target.rsplit(":", 1)
def answered(word):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asks:
        asks.settimeout(2)
        asks.sendto(word, (host, int(port)))
        try:
            return asks.recv(2048) == word
        except OSError:
            return False
found, good = None, 0
while good < 2 and (found is None or time.monotonic() < until):
    time.sleep(1)
    found = any([answered(b"%d" % n) for n in range(3)])
    good = good + 1 if found == wanted else 0
print(json.dumps(found))
"""


def tcp(
    kube: Kube, namespace: str, name: str, image: str, wanted: dict[str, bool], **more: Any
) -> dict[str, bool]:
    """Return which of ``wanted`` (host:port → whether) a pod there can connect to."""
    command = ["python3", "-c", TCP, json.dumps(wanted), str(PATIENCE_S)]
    return dict(said(kube, pod(namespace, name, image, command=command, **more)))


def udp(kube: Kube, namespace: str, name: str, image: str, target: str, *, wanted: bool) -> bool:
    """Whether an echo answers there."""
    command = ["python3", "-c", UDP, json.dumps([target, wanted]), str(PATIENCE_S)]
    return bool(said(kube, pod(namespace, name, image, command=command)))


def said(kube: Kube, made: dict[str, Any]) -> Any:
    """Run a pod to its end; return the JSON that it printed."""
    name, namespace = made["metadata"]["name"], made["metadata"]["namespace"]
    kube.create(made)
    kube.until(
        f"the end of {name}",
        lambda: phase(kube.get("v1", "Pod", name, namespace)) in {"Succeeded", "Failed"},
        ENDED_WITHIN_S,
    )
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/log"
    text = kube.until("its words", lambda: kube.request("GET", path), 30)
    return json.loads(text) if isinstance(text, str) else text
