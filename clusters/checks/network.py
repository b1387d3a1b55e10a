"""Is NetworkPolicy enforced? Asked of real pods: what could be reached before must not be after.

Two namespaces as two tenants have them. Without a policy the client reaches both listeners (else
nothing could be concluded). Then incoming connections to one of them are denied, and outgoing
ones of a second client: both must fail, while what no policy forbids still works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext_noop as _n

from clusters.checks.base import Finding, green, probe_ended, red, undecided, unknown
from clusters.checks.bench import PORT

if TYPE_CHECKING:
    from clusters.checks.base import Subject
    from clusters.checks.bench import Bench

NAME = "network"
LISTENER = f"""
import socket
server = socket.create_server(("", {PORT}), family=socket.AF_INET6, dualstack_ipv6=True) \
    if socket.has_dualstack_ipv6() else socket.create_server(("", {PORT}))
while True:
    other, _ = server.accept()
    other.close()
"""
# EXPECT: "open ADDRESS [PORT]" and "closed ADDRESS [PORT]" by comma. Ends with 0 as soon as
# everything was as expected for HOLDS_S (a rule may be gone for a moment while others are written,
# and who is slow to answer is not closed), with 10 + the number of what was not when time ran out,
# or with 1 where that says nothing.
HOLDS_S, ANSWERS_S = 5, 3
CLIENT = f"""
import os, socket, sys, time
from concurrent.futures import ThreadPoolExecutor
wanted = [entry.split() for entry in os.environ["EXPECT"].split(",")]
def is_so(entry):
    state, address, *port = entry
    try:
        where = (address, int(port[0]) if port else {PORT})
        socket.create_connection(where, timeout={ANSWERS_S}).close()
    except OSError:
        return state == "closed"
    return state == "open"
until, since, wrong = time.monotonic() + float(os.environ["WAIT"]), None, None
with ThreadPoolExecutor(len(wanted)) as pool:
    while time.monotonic() < until:
        asked, seen = time.monotonic(), list(pool.map(is_so, wanted))
        if all(seen):
            since = since or asked
            if time.monotonic() - since >= {HOLDS_S}:
                sys.exit(0)
        else:
            since, wrong = None, seen.index(False)
        time.sleep(0.2)
sys.exit(1 if since or wrong is None else 10 + wrong)
"""
# A busy node may be late to enforce a new policy. Where all is well this takes a second or two.
WAIT_S = "60"
FIRST, SECOND = 10, 11  # the first or second thing of CLIENT was not as expected
FIX = (
    "kubectl get pods -A | grep -E 'calico|cilium|kube-router|antrea'"
    "  # one of them must run on every node"
)


def act(subject: Subject, bench: Bench) -> Finding:
    del subject
    if not bench.image:
        return unknown(
            NAME,
            _n("Set a check image, a sidecar image or a default image: pods are needed to see it."),
        )
    servers, clients = bench.namespace("a"), bench.namespace("b")
    for name in ("guarded", "free"):
        bench.start(servers, name, LISTENER)
    guarded, free = (bench.address(servers, name) for name in ("guarded", "free"))
    expect = f"open {guarded},open {free}"
    bench.start(clients, "before", CLIENT, env={"EXPECT": expect, "WAIT": WAIT_S})
    before = bench.exit_code(clients, "before", runs_s=float(WAIT_S))
    if before in {FIRST, SECOND}:
        return undecided(
            NAME,
            _n("Pods of two namespaces can't reach each other even without a policy, so nothing "
               "can be said."),
            fix="kubectl get networkpolicies,pods -A",
        )  # fmt: skip
    if before:
        return probe_ended(NAME, before)
    _close(bench, servers, clients)
    env = {"EXPECT": f"closed {guarded},open {free}", "WAIT": WAIT_S}
    bench.start(clients, "incoming", CLIENT, env=env)
    env = {"EXPECT": f"closed {free}", "WAIT": WAIT_S}
    bench.start(clients, "outgoing", CLIENT, env=env, labels={"egress": "denied"})
    incoming = bench.exit_code(clients, "incoming", runs_s=float(WAIT_S))
    outgoing = bench.exit_code(clients, "outgoing", runs_s=float(WAIT_S))
    return judge(incoming, outgoing)


def _close(bench: Bench, servers: str, clients: str) -> None:
    bench.policy(
        servers,
        "deny-incoming",
        {"podSelector": {"matchLabels": {"app": "guarded"}}, "policyTypes": ["Ingress"]},
    )
    bench.policy(
        clients,
        "deny-outgoing",
        {"podSelector": {"matchLabels": {"egress": "denied"}}, "policyTypes": ["Egress"]},
    )


def judge(incoming: int, outgoing: int) -> Finding:
    """What the two clients' ends mean. Red is only what a client itself saw: a closed listener that
    it reached. What ended a client otherwise says nothing of the network.
    """
    if incoming == FIRST and outgoing == FIRST:
        return red(NAME, _n("NetworkPolicy is not enforced: a pod reached a pod of another namespace that a policy closes."), fix=FIX)  # fmt: skip # noqa: E501
    if incoming == FIRST:
        return red(NAME, _n("NetworkPolicy is not enforced for incoming connections."), fix=FIX)
    if outgoing == FIRST:
        return red(NAME, _n("NetworkPolicy is not enforced for outgoing connections."), fix=FIX)
    if incoming == SECOND:
        return undecided(
            NAME, _n("A policy for one pod also cut off another one, so nothing can be said.")
        )
    if incoming or outgoing:
        return probe_ended(NAME, incoming or outgoing)
    return green(NAME, _n("Enforced: probed with pods of two namespaces, both directions."))
