"""Settings of an installation of several processes or machines (docs/deploy.md)."""

from pathlib import Path

from portal.settings.env import VAR, flag, mapping, number, text

# Where the listeners for workloads and for Berth's own processes are opened. On one machine
# nobody else may reach them; in a container a NetworkPolicy says who does.
BERTH_INTERNAL_BIND = text("INTERNAL_BIND")
# 0: the worker answers no probes (berth up watches it by its process number)
BERTH_HEALTH_PORT = number("HEALTH_PORT")
# After SIGTERM web still answers for so long: a load balancer needs a moment to look away.
BERTH_DRAIN_SECONDS = number("DRAIN_SECONDS")
BERTH_STATIC_DIR = Path(text("STATIC_DIR", str(VAR / "static")))
# of the first administrator; empty: one is made and shown once
BERTH_ADMIN_PASSWORD = text("ADMIN_PASSWORD")

# The cluster that Berth itself runs in, used through its mounted service account. Only an
# operator's setting can say so: nothing that is pasted leads to this identity.
BERTH_IN_CLUSTER = text("IN_CLUSTER")
BERTH_IN_CLUSTER_NAME = text("IN_CLUSTER_NAME")
# Where BERTH_ROUTER=gateway attaches the routes of workspaces: namespace/name[/listener], and the
# cluster that it is in (empty: the one that Berth runs in).
BERTH_GATEWAY = text("GATEWAY")
BERTH_GATEWAY_CLUSTER = text("GATEWAY_CLUSTER")
# Service of the notebook proxy there, namespace/service:port: WebSockets go through it, so that
# those of a revoked visitor can be cut. Empty: they go straight to the workload and can't.
BERTH_GATEWAY_PROXY = text("GATEWAY_PROXY")
# Attached clusters may lie on this machine's own addresses (trials; never a shared portal).
BERTH_ALLOW_PRIVATE_CLUSTERS = flag("ALLOW_PRIVATE_CLUSTERS")
BERTH_IN_CLUSTER_OPTIONS = mapping("IN_CLUSTER_OPTIONS")
