"""What is logged is one line of JSON in which an error has its whole trace."""

import json
import logging
import os
import subprocess
import sys

import pytest
from django.conf import settings

from tests.support.portal import ROOT

# How each process sets its logging up, as its main() does; web and gate run uvicorn.
SET_UP = {
    "web": "from common import serving; serving.config(print).configure_logging()",
    "gate": "from gate import server; server.config(print).configure_logging()",
    "worker": "from portal.celery import app; app.log.setup(loglevel=logging.getLogger().level)",
}
LIBRARIES = ("uvicorn.error", "asyncio", "django.request", "asyncssh", "celery.app.trace")
PROGRAM = """
import logging, django
django.setup()
{set_up}
import structlog
from celery.utils.log import get_task_logger
try:
    1 / 0
except ZeroDivisionError:
    for name in {libraries}:
        logging.getLogger(name).exception("It failed")
    get_task_logger("some.tasks").exception("It failed")
    structlog.get_logger("ours").exception("It failed")
"""


@pytest.mark.parametrize("process", SET_UP)
def test_each_process_says_an_error_in_one_line_with_its_trace(process: str) -> None:
    code = PROGRAM.format(set_up=SET_UP[process], libraries=LIBRARIES)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings.test"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert len(lines) == len(LIBRARIES) + 2
    for line in lines:
        assert line["exception"].startswith("Traceback (most recent call last):")
        assert line["exception"].endswith("ZeroDivisionError: division by zero")


def test_an_error_of_any_library_has_its_trace_as_text() -> None:
    configured = logging.config.DictConfigurator(settings.LOGGING)  # type: ignore[attr-defined]
    formatter = configured.configure_formatter(settings.LOGGING["formatters"]["json"])
    try:
        int("no such thing")
    except ValueError:
        record = logging.LogRecord("uvicorn", logging.ERROR, "", 1, "It failed", (), None)
        record.exc_info = sys.exc_info()
    said = json.loads(formatter.format(record))
    assert "ValueError: invalid literal" in said["exception"]
    assert "test_logs.py" in said["exception"]
    assert "traceback object" not in json.dumps(said)
