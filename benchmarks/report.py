"""docs/benchmarks.md from results.json, plus the hand-written explanations beside it."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks.lib import RESULTS

NOTES = Path(__file__).resolve().parent / "notes.md"

_HEAD = """# Benchmarks

Measured on a shared 2-core machine. `make bench` runs eight (`warm`, `lists`, `waits`, `budgets`,
`replay`, `spawn`, `idle`, `storm`), `make bench ARGS="NAME …"` the others: loads, keys,
`converge`, `guarantees`, `resume`, `fleet`, `ingest`, `idle-day`, `ratios`, and what needs a
cluster (of queues `cluster-replay` and `cluster-admission`). A row with a peer is a ratio against
it, or against a limit, in the same run, rounds alternated. A row without one is an absolute figure
and belongs to that machine only. *Goal*, then the *floor* in brackets.

| what | ratio or figure | spread | goal [floor] | met | ours (median) | peer (median) | rounds |
|---|---|---|---|---|---|---|---|
"""


def write(target: Path) -> None:
    rows = json.loads(RESULTS.read_text())
    lines = []
    for name, r in rows.items():
        low, high = r["spread"]
        peer = f"{statistics.median(r['peer']):.3g} ({r['peer_name']})" if r["peer"] else "-"
        note = f"; {r['note']}" if r["note"] else ""
        lines.append(
            f"| {name} | {r['value']:.3g} | {low:.3g} to {high:.3g} | {bounds(r)}"
            f" | {r['verdict']} | {statistics.median(r['ours']):.3g} {r['unit']}{note}"
            f" | {peer} | {len(r['ours'])} |"
        )
    notes = NOTES.read_text() if NOTES.exists() else ""
    target.write_text(_HEAD + "\n".join(lines) + "\n\n" + notes)


def bounds(row: dict[str, Any]) -> str:
    """What is printed for comparison only has none."""
    return "-" if row["goal"] is None else f"{row['goal']} [{row['floor']}]"
