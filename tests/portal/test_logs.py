"""What is logged is one line of JSON in which an error has its whole trace."""

import json
import logging

from django.conf import settings


def test_an_error_of_any_library_has_its_trace_as_text() -> None:
    configured = logging.config.DictConfigurator(settings.LOGGING)  # type: ignore[attr-defined]
    formatter = configured.configure_formatter(settings.LOGGING["formatters"]["json"])
    try:
        int("no such thing")
    except ValueError:
        record = logging.LogRecord("uvicorn", logging.ERROR, "", 1, "It failed", (), None)
        import sys

        record.exc_info = sys.exc_info()
    said = json.loads(formatter.format(record))
    assert "ValueError: invalid literal" in said["exception"]
    assert "test_logs.py" in said["exception"]
    assert "traceback object" not in json.dumps(said)
