"""What a pod can connect to, tried from inside.

An enforcer may learn of a new pod or of a change a moment later, on a busy machine many seconds, and
a rule may be gone for a moment while others are written: a pod tries until all was as wanted for as
long as the portal's own probe asks for, and says else what was found the last time it was not.
"""

from __future__ import annotations

import json
from typing import Any

from clusters.checks.network import HOLDS_S
from devcluster.kube import Kube
from tests.cluster.pods import phase, pod

PATIENCE_S = 60
ENDED_WITHIN_S = PATIENCE_S + 120.0

# ``held(look, wanted, until)``: ``wanted`` when ``look()`` gave that, and again for HOLDS_S.
HELD = f"""
import json, socket, sys, time
from concurrent.futures import ThreadPoolExecutor
def held(look, wanted, until):
    since, wrong = None, "never held for {HOLDS_S} s"
    while True:
        found = look()
        if found == wanted:
            since = since or time.monotonic()
            if time.monotonic() - since >= {HOLDS_S}:
                return found
        else:
            since, wrong = None, found
        if time.monotonic() > until:
            return wrong
        time.sleep(0.2)
"""
REACHES = """
def reaches(target, patience=5):
    host, port = target.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=patience).close()
    except OSError:
        return False
    return True
"""
TCP = f"""{HELD}{REACHES}
wanted, until = json.loads(sys.argv[1]), time.monotonic() + float(sys.argv[2])
with ThreadPoolExecutor(len(wanted)) as pool:
    look = lambda: dict(zip(wanted, pool.map(reaches, wanted)))
    print(json.dumps(held(look, wanted, until)))
"""
# A socket of its own for each word: what was let through once goes on on the same one.
UDP = f"""{HELD}
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
look = lambda: any([answered(b"%d" % n) for n in range(3)])
print(json.dumps(held(look, wanted, until)))
"""
# Once all are closed: each of them asked over and over, and how often it opened.
LEAKS = f"""{HELD}{REACHES}
targets, until = json.loads(sys.argv[1]), time.monotonic() + float(sys.argv[2])
shut = dict.fromkeys(targets, False)
with ThreadPoolExecutor(len(targets)) as pool:
    look = lambda patience: dict(zip(targets, pool.map(lambda t: reaches(t, patience), targets)))
    before = held(lambda: look(5), shut, until)
    opened, rounds, end = dict.fromkeys(targets, 0), 0, time.monotonic() + float(sys.argv[3])
    while before == shut and time.monotonic() < end:
        for target, is_open in look(1).items():
            opened[target] += is_open
        rounds += 1
        time.sleep(0.1)
print(json.dumps(dict(before=before, opened=opened, rounds=rounds)))
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


def leaking(namespace: str, name: str, image: str, targets: list[str], watch_s: int) -> Any:
    """A pod that counts how often one of ``targets`` opens within ``watch_s`` of being closed."""
    command = ["python3", "-c", LEAKS, json.dumps(targets), str(PATIENCE_S), str(watch_s)]
    return pod(namespace, name, image, command=command)


def said(kube: Kube, made: dict[str, Any]) -> Any:
    """Run a pod to its end; return the JSON that it printed."""
    kube.create(made)
    return words(kube, made)


def is_over(kube: Kube, made: dict[str, Any]) -> bool:
    name, namespace = made["metadata"]["name"], made["metadata"]["namespace"]
    return phase(kube.get("v1", "Pod", name, namespace)) in {"Succeeded", "Failed"}


def words(kube: Kube, made: dict[str, Any]) -> Any:
    """The JSON that a pod printed by its end."""
    text = printed(kube, made)
    return json.loads(text) if isinstance(text, str) else text


def printed(kube: Kube, made: dict[str, Any]) -> Any:
    name, namespace = made["metadata"]["name"], made["metadata"]["namespace"]
    kube.until(f"the end of {name}", lambda: is_over(kube, made), ENDED_WITHIN_S)
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/log"
    return kube.until("its words", lambda: kube.request("GET", path), 30)
