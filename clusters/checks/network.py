"""Is NetworkPolicy enforced? Asked of real pods: what could be reached before must not be after.

Two namespaces as two tenants have them. Without a policy the client reaches both listeners (else
nothing could be concluded). Then incoming connections to one of them are denied, and outgoing
ones of a second client: both must fail, while what no policy forbids still works.

Each group of nodes (``node_groups``) has a listener and clients of its own, all at the same time;
the listener that stays open is one for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.translation import gettext_noop as _n

from clusters.checks import node_groups
from clusters.checks.base import GREEN, RED, Finding, green, probe_ended, red, undecided, unknown
from clusters.checks.probe_runner import PORT, BenchError, Ended, Needs
from clusters.models import CheckResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from clusters.checks.base import Subject
    from clusters.checks.node_groups import Chosen, NodeGroup
    from clusters.checks.probe_runner import Bench
    from clusters.models import Cluster

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
NOTHING_SEEN = 1
SHOWN = 2  # nodes of a group on which nothing came to run
UNPROVED = "unproved"  # among a finding's values: groups of nodes of which nothing was found out
FIX = (
    "kubectl get pods -A -o wide | grep -E 'calico|cilium|kube-router|antrea'"
    "  # one of them must run on every node"
)


@dataclass
class Try:
    """The probe of one group of nodes. ``found`` None: nothing is known yet."""

    group: NodeGroup
    number: int
    address: str = ""
    listener_node: str = ""
    client_node: str = ""
    incoming: int = 0
    outgoing: int = 0
    found: Finding | None = None

    def pod(self, name: str) -> str:
        return f"{name}-{self.number}"


def act(subject: Subject, bench: Bench) -> Finding:
    if not bench.image:
        return unknown(
            NAME,
            _n("Set a check image, a sidecar image or a default image: pods are needed to see it."),
        )
    accused = accused_nodes(subject.cluster)
    chosen = node_groups.chosen(subject, accused)
    tries = [Try(group, number) for number, group in enumerate(chosen.groups)]
    servers, clients = bench.namespace("a"), bench.namespace("b")
    free = _listen(bench, servers, tries)
    _before(bench, clients, _open(tries), free)
    if _open(tries):
        _close(bench, servers, clients)
        _after(bench, clients, _open(tries), free)
    return conclude(tries, chosen, accused)


def accused_nodes(cluster: Cluster) -> frozenset[str]:
    """Return on which nodes policies were seen without effect; until that is seen otherwise."""
    if cluster.pk is None:
        return frozenset()
    rows = CheckResult.objects.filter(cluster=cluster, name=NAME, state=RED)
    return frozenset(str(node) for row in rows for node in row.values.get("nodes") or ())


def _open(tries: Iterable[Try]) -> list[Try]:
    return [one for one in tries if one.found is None]


def _listen(bench: Bench, servers: str, tries: list[Try]) -> str:
    """Start the listeners; return where the one is that stays open."""
    bench.start(servers, "free", LISTENER)
    for one in tries:
        needs = Needs(on=one.group)
        labels = {"ingress": "denied"}  # as soon as there is a policy
        bench.start(servers, one.pod("guarded"), LISTENER, labels=labels, needs=needs)
    seen = bench.running(servers, ["free", *(one.pod("guarded") for one in tries)])
    for one in tries:
        guarded = seen[one.pod("guarded")]
        if isinstance(guarded, BenchError):
            one.found = _failed(guarded)
        else:
            one.address, one.listener_node = guarded.address, guarded.node
    free = seen["free"]
    if isinstance(free, BenchError):
        raise free
    return free.address


def _before(bench: Bench, clients: str, tries: list[Try], free: str) -> None:
    for one in tries:
        _ask(bench, clients, one, "before", f"open {one.address},open {free}")
    ends = bench.ends(clients, [one.pod("before") for one in tries], runs_s=float(WAIT_S))
    for one in tries:
        end = ends[one.pod("before")]
        if isinstance(end, BenchError):
            one.found = _failed(end)
        elif end.code in {FIRST, SECOND}:
            one.found = undecided(
                NAME,
                _n("Pods of two namespaces can't reach each other even without a policy, so"
                   " nothing can be said."),
                fix="kubectl get networkpolicies,pods -A",
            )  # fmt: skip
        elif end.code:
            one.found = probe_ended(NAME, end.code)


def _after(bench: Bench, clients: str, tries: list[Try], free: str) -> None:
    for one in tries:
        _ask(bench, clients, one, "incoming", f"closed {one.address},open {free}")
        labels = {"egress": "denied"}
        _ask(bench, clients, one, "outgoing", f"closed {free}", labels)
    both = [one.pod(name) for name in ("incoming", "outgoing") for one in tries]
    ends = bench.ends(clients, both, runs_s=float(WAIT_S))
    for one in tries:
        incoming, outgoing = ends[one.pod("incoming")], ends[one.pod("outgoing")]
        one.incoming, one.outgoing = _code(incoming), _code(outgoing)
        one.client_node = outgoing.node if isinstance(outgoing, Ended) else ""
        one.found = judge(one.incoming, one.outgoing)
        for end in (incoming, outgoing):  # what one client saw for itself counts all the same
            if isinstance(end, BenchError) and one.found.state != RED:
                one.found = _failed(end)


def _ask(
    bench: Bench,
    clients: str,
    one: Try,
    name: str,
    expect: str,
    labels: Mapping[str, str] | None = None,
) -> None:
    env, needs = {"EXPECT": expect, "WAIT": WAIT_S}, Needs(on=one.group)
    bench.start(clients, one.pod(name), CLIENT, env=env, labels=labels, needs=needs)


def _code(end: Ended | BenchError) -> int:
    return end.code if isinstance(end, Ended) else NOTHING_SEEN


def _failed(error: BenchError) -> Finding:
    return undecided(NAME, _n("Could not be checked: %(why)s"), why=str(error)[:200])


def _close(bench: Bench, servers: str, clients: str) -> None:
    """One policy of each direction closes all that is marked for it."""
    for where, kind, mark in ((servers, "Ingress", "ingress"), (clients, "Egress", "egress")):
        chosen = {"matchLabels": {mark: "denied"}}
        bench.policy(where, f"deny-{mark}", {"podSelector": chosen, "policyTypes": [kind]})


def conclude(tries: list[Try], chosen: Chosen, accused: frozenset[str]) -> Finding:
    """One answer for all groups. A group that was open is red until it was seen closed itself;
    another one of which nothing can be said does not take away what the rest has proved.
    """
    if open_ones := [one for one in tries if _state(one) == RED]:
        return _accusing(open_ones)
    unproved = [one for one in tries if _state(one) != GREEN]
    waited = [one for one in unproved if not accused.isdisjoint(one.group.nodes)]
    if waited or len(unproved) == len(tries):
        return _found((waited or unproved)[0])
    where = _listed(one for one in tries if one not in unproved)
    if unproved:
        return _partly(where, unproved)
    if not where:
        return _found(tries[0])
    if len(tries) < chosen.total:
        return green(
            NAME,
            _n("Enforced: probed with pods of two namespaces, both directions, on these nodes"
               " (of these pools): %(where)s. These stand for %(tried)d of %(total)d groups of"
               " nodes; the others have their turn on other days."),
            where=where, tried=len(tries), total=chosen.total,
        )  # fmt: skip
    return green(
        NAME,
        _n("Enforced: probed with pods of two namespaces, both directions, on these nodes"
           " (of these pools): %(where)s."),
        where=where,
    )  # fmt: skip


def _accusing(tries: list[Try]) -> Finding:
    nodes = {one.listener_node for one in tries if one.incoming == FIRST}
    nodes |= {one.client_node for one in tries if one.outgoing == FIRST}
    values = {"where": _listed(tries), "nodes": sorted(nodes - {""})}
    if not values["where"]:
        return _found(tries[0])
    if all(one.outgoing != FIRST for one in tries):
        sentence = _n("NetworkPolicy is not enforced for incoming connections on these nodes"
                      " (of these pools): %(where)s.")  # fmt: skip
    elif all(one.incoming != FIRST for one in tries):
        sentence = _n("NetworkPolicy is not enforced for outgoing connections on these nodes"
                      " (of these pools): %(where)s.")  # fmt: skip
    else:
        sentence = _n("NetworkPolicy is not enforced on these nodes (of these pools): %(where)s. A"
                      " pod reached a pod of another namespace that a policy closes.")  # fmt: skip
    return red(NAME, sentence, fix=FIX, **values)


def _partly(where: str, unproved: list[Try]) -> Finding:
    whys = (str(_found(one).values.get("why") or "") for one in unproved)
    values = {"where": where, UNPROVED: _listed(unproved), "why": next(filter(None, whys), "")}
    if values["why"]:
        sentence = _n("Enforced on these nodes (of these pools): %(where)s. Of these nothing could"
                      " be said, which is tried again: %(unproved)s. %(why)s")  # fmt: skip
    else:
        sentence = _n("Enforced on these nodes (of these pools): %(where)s. Of these nothing could"
                      " be said, which is tried again: %(unproved)s.")  # fmt: skip
    return green(NAME, sentence, **values)


def _listed(tries: Iterable[Try]) -> str:
    return ", ".join(filter(None, map(_named, tries)))


def _named(one: Try) -> str:
    """The nodes that a group's pods were seen on, and its pool; language has no part in it."""
    accused = [
        node
        for node, code in ((one.listener_node, one.incoming), (one.client_node, one.outgoing))
        if code == FIRST
    ]
    seen = accused or [one.listener_node, one.client_node]
    nodes = sorted({*seen} - {""}) or [*one.group.nodes[:SHOWN]]
    more = "…" if not any(seen) and len(one.group.nodes) > SHOWN else ""
    pool = f" ({one.group.pool})" if one.group.pool else ""
    return f"{', '.join(nodes)}{more}{pool}"


def _found(one: Try) -> Finding:
    return one.found or probe_ended(NAME, NOTHING_SEEN)


def _state(one: Try) -> str:
    return _found(one).state


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
