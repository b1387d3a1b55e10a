"""What the gate counts; served on its internal listener."""

from prometheus_client import Counter, Gauge

from common.metrics import REGISTRY

OPEN = Gauge("berth_gate_streams", "Streams open now.", ["kind"], registry=REGISTRY)
OPENED = Counter(
    "berth_gate_streams_opened_total", "Streams opened so far.", ["kind"], registry=REGISTRY
)
CUT = Counter(
    "berth_gate_streams_cut_total",
    "Streams cut by the gate, by cause.",
    ["cause"],
    registry=REGISTRY,
)
SSH_REFUSED = Counter(
    "berth_gate_ssh_refused_total", "SSH sign-ins refused, by cause.", ["cause"], registry=REGISTRY
)
