"""A small exporter with DCGM's names, for where there is no GPU: a trace file becomes ``/metrics``.

``python -m tools.use_exporter day.json --node n1 --port 9400 --pods pods.json``

The trace is a JSON object: device (its UUID) → list of [hour of the day, percent, MiB]; between two
points the first one holds, and after the last one the day begins anew. ``--pods`` is a file that
may change while it runs: device → [namespace, pod] of who holds it. Without ``trace`` there are
eight devices with a made-up day. What it tells is marked by ``simulated="true"``.
"""

from __future__ import annotations

import argparse
import json
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Point = Sequence[float]  # hour, percent, MiB
HOURS, HOUR_S = 24, 3600
_DEVICES = 8
UTILISATION, MEMORY = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"


def made_up(count: int = _DEVICES) -> dict[str, list[Point]]:
    """Return a day of training by night, bursts by day, and devices that are held and idle."""
    busy: list[Point] = [(0, 96, 70_000), (9, 91, 70_000), (18, 97, 70_000)]
    bursts: list[Point] = []
    for hour in range(HOURS):
        bursts += [(hour, 74, 30_000), (hour + 1 / 3, 1, 30_000)]
    idle: list[Point] = [(0, 0, 24_000)]
    kinds = (busy, bursts, idle)
    return {f"GPU-simulated-{n:04d}": list(kinds[n % len(kinds)]) for n in range(count)}


def at_hour(points: Sequence[Point], hour: float) -> tuple[float, float]:
    """Return percent and MiB at an hour of the day."""
    ordered = sorted(points, key=lambda point: point[0])
    found = ordered[bisect_right([point[0] for point in ordered], hour % HOURS) - 1]
    return float(found[1]), float(found[2])


def text(
    trace: Mapping[str, Sequence[Point]],
    pods: Mapping[str, Sequence[str]],
    node: str,
    at: float,
) -> str:
    """Return what the exporter of a node says at a moment, in Prometheus' text format."""
    hour = at % (HOURS * HOUR_S) / HOUR_S
    lines = []
    for name, index in ((UTILISATION, 0), (MEMORY, 1)):
        lines.append(f"# TYPE {name} gauge")
        for number, (device, points) in enumerate(trace.items()):
            namespace, pod = pods.get(device, ("", ""))
            labels = {
                "gpu": str(number),
                "UUID": device,
                "Hostname": node,
                "namespace": namespace,
                "pod": pod,
                "simulated": "true",
            }
            said = ",".join(f"{key}={json.dumps(value)}" for key, value in labels.items())
            lines.append(f"{name}{{{said}}} {at_hour(points, hour)[index]:g}")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, nargs="?")
    parser.add_argument("--node", default="node")
    parser.add_argument("--port", type=int, default=9400)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--pods", type=Path)
    options = parser.parse_args()
    trace: Any = json.loads(options.trace.read_text()) if options.trace else made_up()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                pods = json.loads(options.pods.read_text()) if options.pods else {}
            except (OSError, ValueError):  # it is being written, or nobody holds any yet
                pods = {}
            is_there = self.path == "/metrics"
            body = text(trace, pods, options.node, time.time()).encode() if is_there else b""
            self.send_response(200 if is_there else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            """Say nothing of each question."""

    ThreadingHTTPServer((options.address, options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
