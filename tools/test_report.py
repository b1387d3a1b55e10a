"""``docs/test-report.md``: what the last whole run of all tests found, from pytest's JUnit file."""

import subprocess
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parent.parent
SLOWEST = 10

HEAD = """\
# Report of all tests

`make test-long` writes this page: everything there is, with real parts.

| | |
|---|---|
"""


def write(results: Path, page: Path, missing: dict[str, str], cost: str) -> None:
    """Write ``page`` from ``results``; ``missing``: mark to why its tests did not run."""
    cases = list(ET.parse(results).iter("testcase"))
    counts = Counter(outcome(case) for case in cases)
    rows = {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "commit": commit(),
        **{name: counts[name] for name in ("passed", "failed", "skipped")},
        "time": cost,
    }
    lines = [f"| {name} | {value} |" for name, value in rows.items()]
    reasons = Counter(
        (skip.get("message") or "no reason").split("\n")[0]
        for case in cases
        for skip in case.iter("skipped")
    )
    parts = {
        "Not here": [
            f"- the tests marked `{mark}`: {why}" for mark, why in sorted(missing.items())
        ],
        "Skipped": [f"- {count}: {why}" for why, count in sorted(reasons.items())],
        "Failed": [f"- `{name(case)}`" for case in cases if outcome(case) == "failed"],
        "Slowest": [
            f"- {float(case.get('time', 0)):.0f} s: `{name(case)}`"
            for case in sorted(cases, key=lambda one: -float(one.get("time", 0)))[:SLOWEST]
        ],
    }
    sections = [f"\n## {title}\n\n" + "\n".join(rows or ["None."]) for title, rows in parts.items()]
    page.write_text(HEAD + "\n".join(lines) + "\n" + "\n".join(sections) + "\n")


def outcome(case: ET.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "passed" if case.find("skipped") is None else "skipped"


def name(case: ET.Element) -> str:
    return f"{case.get('classname', '').replace('.', '/')}::{case.get('name')}"


def commit() -> str:
    """The commit that was tested, with a word where the tree held more than it."""
    found = git("rev-parse", "--short=12", "HEAD")
    return f"{found} and changes that are not committed" if git("status", "--porcelain") else found


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()
