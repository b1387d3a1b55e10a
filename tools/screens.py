"""Takes a picture of every page: light and dark, 1440 and 390 pixels wide, into screens/.

Starts a portal of its own with a small seeded world in a temporary folder (tools/screen_data.py),
on a free port of this machine, and ends it. ``--url`` uses a running portal instead; then
``--pages`` names a JSON file as screen_data.py prints it. Japanese for the main pages.
"""

import argparse
import http
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM = "/usr/bin/chromium"
STEADY = ROOT / "tools/steady_chromium.py"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
JAPANESE = {
    "home",
    "idle-policy",
    "patrol",
    "workspace-idle",
    "job-failed",
    "job-goodput",
    "job-new-filled",
    "job-new-many",
    "jobs",
    "launch",
    "endpoint-catalogue",
    "endpoint-keys",
    "endpoint-ready",
    "endpoint-requests",
    "endpoint-try",
    "endpoints",
    "perftest-slower",
    "search-many",
    "search-new",
    "search-running",
    "workspace-running",
    "workspace-pending",
    "console-machines",
    "console-overview",
    "console-queue-cancel",
    "fleet",
    "fleet-table",
    "workspaces",
    "workspaces-stop-of-others",
    "settings-profile",
    "project-overview",
    "queues-effect",
    "queues-effect-now",
    "queues-two-groups",
    "budgets",
    "queues-tree",
    "showback",
    "usage",
    "webhook",
    "usage-all",
    "sign-in",
}


@dataclass(frozen=True)
class Portal:
    """A running portal with what is known of it."""

    url: str
    password: str
    pages: list[dict[str, Any]]
    env: dict[str, str] = field(default_factory=dict)  # what its processes run with
    cookies: dict[str, Any] = field(default_factory=dict)  # of who signed in, by name


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def portal(port: int = 0, begin: Callable[[Path], None] | None = None) -> Iterator[Portal]:
    """Start a portal with the seeded world, at any port or this one; end it by its process id.

    ``begin`` may leave a migrated database in its folder: to make one costs more than all else.
    """
    folder = tempfile.mkdtemp(prefix="berth-screens-")
    port = port or free_port()
    for name in ("broker/queue", "broker/control", "broker/processed", "run/bus"):
        (Path(folder) / name).mkdir(parents=True)
    if begin:
        begin(Path(folder))
    env = {key: value for key, value in os.environ.items() if not key.startswith("BERTH_")}
    env |= {
        "BERTH_VAR": folder,
        "BERTH_LOCAL_DRIVER": "fake",
        "BERTH_ROUTER": "fake",
        "BERTH_SECRET_KEY": "only-for-pictures-only-for-pictures-only-for-pictures",
        "BERTH_CREDENTIAL_KEYS": "only-for-pictures-only-for-pictures",
        "BERTH_PORT": str(port),
        "BERTH_LOG_LEVEL": "WARNING",
        "DJANGO_SETTINGS_MODULE": "portal.settings.dev",
    }
    process = None
    try:
        subprocess.run(
            [sys.executable, "-c", "from tools.messages import compile_all; compile_all()"],
            env=env,
            cwd=ROOT,
            check=True,
        )
        seeded = subprocess.run(
            [sys.executable, str(ROOT / "tools" / "screen_data.py")],
            env=env,
            cwd=ROOT,
            check=True,
            stdout=subprocess.PIPE,
        )
        known = json.loads(seeded.stdout)
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "uvicorn",
                "portal.asgi:application",
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
                "--log-level",
                "warning",
                "--no-access-log",
            ],
            env=env,
            cwd=ROOT,
        )
        url = f"http://localhost:{port}"
        wait_for(f"{url}/livez", process)
        yield Portal(url, known["password"], known["pages"], env)
    finally:
        if process is not None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(url: str, process: "subprocess.Popen[bytes]", seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SystemExit("The portal ended while it started; see the lines above.")
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                if answer.status == http.HTTPStatus.OK:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise SystemExit(f"{url} did not answer within {seconds:g} s.")


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    env: dict[str, str | float | bool] = {**os.environ, "CHROMIUM": CHROMIUM}
    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=STEADY, args=FLAGS, env=env)
        try:
            yield chromium
        finally:
            chromium.close()


def sign_in(context: Any, at: Portal, user: str) -> None:
    """By the form once; who did so goes on in that session, in any other context."""
    if user in at.cookies:
        context.add_cookies(at.cookies[user])
        return
    page = context.new_page()
    page.goto(f"{at.url}/accounts/login/")
    page.fill("input[name=login]", user)
    page.fill("input[name=password]", at.password)
    page.press("input[name=password]", "Enter")
    page.wait_for_url(lambda url: "/accounts/login" not in url)
    page.close()
    at.cookies[user] = context.cookies()


def open_page(page: Any, url: str, acts: Sequence[Sequence[str]] = ()) -> None:
    """Go there and wait until it is drawn; an open event stream never lets the network rest.

    ``acts`` is what somebody does there first: ``choose`` a value of a list, ``type`` a text,
    ``press`` what is not a link.
    """
    page.goto(url, wait_until="load")
    for act, selector, *value in acts:
        if act == "choose":
            page.select_option(selector, *value)
        elif act == "type":
            page.fill(selector, *value)
        else:
            page.click(selector)
    page.evaluate("document.fonts.ready")
    page.wait_for_timeout(1_500 if acts else 250)  # a plan is asked for when typing ends


def shoot(at: Portal, folder: Path, only: str, *, quick: bool, japanese: bool = False) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    taken = 0
    with browser() as chromium:
        for user in sorted({page["user"] for page in at.pages}):
            state = None
            if user:
                context = chromium.new_context()
                sign_in(context, at, user)
                state = context.storage_state()
                context.close()
            mine = [p for p in at.pages if p["user"] == user and re.search(only, p["name"])]
            for theme, size, language in looks(quick=quick, japanese=japanese):
                context = chromium.new_context(
                    viewport=size, color_scheme=theme, locale=language, storage_state=state
                )
                page = context.new_page()
                for item in mine:
                    if language == "ja" and not japanese and item["name"] not in JAPANESE:
                        continue
                    open_page(page, at.url + item["url"], item.get("acts", ()))
                    tail = "-ja" if language == "ja" else ""
                    name = f"{item['name']}-{theme}-{size['width']}{tail}.png"
                    page.screenshot(path=folder / name, full_page=True)
                    taken += 1
                context.close()
            print(f"{user or 'signed out'}: {taken} pictures so far", flush=True)
    return taken


def looks(*, quick: bool, japanese: bool) -> list[tuple[str, dict[str, int], str]]:
    every = [(t, s, "en") for t in ("light", "dark") for s in (WIDE, NARROW)]
    in_japanese = [("light", WIDE, "ja"), ("dark", NARROW, "ja")]
    if japanese:
        return in_japanese[: 1 if quick else 2]
    return every[:1] if quick else [*every, *in_japanese]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="a running portal instead of one of our own")
    parser.add_argument("--pages", type=Path, help="with --url: the JSON of screen_data.py")
    parser.add_argument("--only", default="", help="pages whose name this pattern finds")
    parser.add_argument("--quick", action="store_true", help="light and wide only")
    parser.add_argument("--japanese", action="store_true", help="all chosen pages, and only so")
    parser.add_argument("--out", type=Path, default=ROOT / "screens")
    options = parser.parse_args()
    if not Path(CHROMIUM).exists():
        print("Chromium is missing; on Debian: apt-get install chromium", file=sys.stderr)
        return 3
    how = {"quick": options.quick, "japanese": options.japanese}
    if options.url:
        known = json.loads(options.pages.read_text())
        at = Portal(options.url.rstrip("/"), known["password"], known["pages"])
        taken = shoot(at, options.out, options.only, **how)
    else:
        with portal() as at:
            taken = shoot(at, options.out, options.only, **how)
    print(f"{taken} pictures in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
