"""The self-check of a cluster: a list of questions, each green, red with a fix, or unknown."""

from django.utils.translation import gettext_lazy as _

from clusters.checks import (
    connectivity,
    host,
    image,
    network,
    queue,
    rights,
    simple,
    sole,
    storage,
    users,
)
from clusters.checks.base import Check

CHECKS: tuple[Check, ...] = (
    Check("version", _("API server"), simple.version, _("It answers and is new enough.")),
    Check(
        sole.NAME,
        _("Only this Berth"),
        sole.act,
        _("Two that share a prefix would be in each other's way."),
    ),
    Check("clock", _("Clock"), simple.clock, _("Tokens end at the time that both agree on.")),
    Check("rights", _("Our rights"), rights.needed, _("Our identity may do what is needed.")),
    Check(
        "restraint",
        _("No more rights"),
        rights.restraint,
        _("Whoever takes our credential must not own the cluster."),
    ),
    Check(
        "security",
        _("Pod Security"),
        simple.pod_security,
        _("Pods that would own their node are refused in projects."),
    ),
    Check("image", _("Images"), image.act, _("Nodes can pull what workloads need.")),
    Check(
        "ports",
        _("Ports of containers"),
        image.ports,
        _("An image signs people in before they see what a container serves."),
    ),
    Check(
        "ways",
        _("Ways to Berth and back"),
        connectivity.act,
        _("Pods find Berth's listener, and the notebook proxy finds pods: tried as work goes."),
    ),
    Check(
        "network",
        _("Network policies"),
        network.act,
        _("Projects can't reach each other: probed with pods, not assumed."),
    ),
    Check(
        "host",
        _("Nodes and metadata"),
        host.act,
        _("Pods of projects reach no kubelet, API server or cloud's metadata: probed with a pod."),
    ),
    Check("storage", _("Storage"), storage.act, _("Homes can be made and written.")),
    Check(
        "users",
        _("User namespaces"),
        users.namespaces,
        _("Root inside a container is nobody on its node, where the runtime can do that."),
    ),
    Check(
        "kubectl",
        _("kubectl"),
        simple.kubectl,
        _("People's kubectl is told an address that they reach."),
    ),
    Check("gpus", _("GPUs"), simple.gpus, _("Nodes say what they have.")),
    Check("queue", _("Queue"), queue.act, _("What admits workloads is there and works.")),
)
