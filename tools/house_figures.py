"""Figures of the code itself: lines, files, and how many files one field or one launch touches.

``python -m tools.house_figures`` prints them; docs/architecture.md has those of the last look.
Product code is Python that is installed: no tests, benchmarks, tools, devcluster, migrations.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
APART = ("tests/", "benchmarks/", "devcluster/", "tools/")
SMALL = 50  # lines
FRAME = ("accounts/", "common/", "portal/", "projects/api/", "projects/middleware", "runtime/bus")
FIELDS = ("gpu_flavor", "shm_mib")
# Run by pytest: a launch through the API until it runs, with every product file that was entered.
LAUNCH = """
import sys
from pathlib import Path

ROOT = {root!r}

def test_launch(api, project, alice, presets, settle):
    from notebooks.models import Workspace
    seen = set()
    def note(frame, event, arg):
        if event == "call":
            seen.add(frame.f_code.co_filename)
    base = f"/api/v1/projects/{{project.slug}}/workspaces"
    api(alice, "GET", base)  # what the first request of a process loads is no launch
    sys.setprofile(note)
    try:
        answer = api(alice, "POST", base, {{}})
        asked = set(seen)
        seen.clear()
        settle(Workspace.objects.get())
    finally:
        sys.setprofile(None)
    assert answer.status_code == 202, answer.content
    assert Workspace.objects.get().phase == "running"
    for name, entered in (("ASKED", asked), ("MADE", seen)):
        mine = sorted(str(Path(f).relative_to(ROOT)) for f in entered if f.startswith(ROOT + "/"))
        print(name, *(f for f in mine if not f.startswith(("tests/", ".venv", "tools/"))))
"""


def product() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    kept = (name for name in listed if not name.startswith(APART) and "/migrations/" not in name)
    return [ROOT / name for name in kept]


def launch() -> tuple[list[str], list[str]]:
    """Return the product files that one launch enters, with the fake driver: what a request asks
    of, and what then makes it so.
    """
    file = ROOT / "tests" / "notebooks" / "test_zz_house_figures.py"
    file.write_text(LAUNCH.format(root=str(ROOT)))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(file)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        file.unlink()
    asked, made = (re.search(rf"{word} (.*)", done.stdout) for word in ("ASKED", "MADE"))
    if asked is None or made is None:
        sys.exit(done.stdout[-2000:])
    return asked.group(1).split(), made.group(1).split()


def main() -> None:
    files = product()
    texts = {file: file.read_text() for file in files}
    print(f"lines of product Python: {sum(text.count(chr(10)) for text in texts.values())}")
    small = sum(text.count("\n") < SMALL for text in texts.values())
    print(f"files: {len(files)}, under {SMALL} lines: {small}")
    for word in FIELDS:
        here = [f for f, text in texts.items() if re.search(rf"\b{word}\b", text)]
        print(f"files that say {word}: {len(here)}")
    asked, made = launch()
    print(f"files that a launch enters: {len({*asked, *made})}")
    frame = [name for name in asked if name.startswith(FRAME)]
    print(f"  in the request: {len(asked)}, of them the frame of any request: {len(frame)}")
    print(f"  until it runs: {len(made)}")
    if "-v" in sys.argv:
        print("\n".join(sorted({*asked, *made})))


if __name__ == "__main__":
    main()
