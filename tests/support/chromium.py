"""The real browser, with nothing that calls home."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, expect, sync_playwright

from tools.screens import STEADY

# How long a page may take is for the benchmarks: here it only shares the machine with everything
# else, and Playwright's own five seconds are less than a disk may stand still then.
PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def executable() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        env: dict[str, str | float | bool] = {**os.environ, "CHROMIUM": executable() or ""}
        opened = playwright.chromium.launch(executable_path=STEADY, args=FLAGS, env=env)
        try:
            yield opened
        finally:
            opened.close()
