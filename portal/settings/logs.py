"""What must not stand in a log line: addresses that open something by being known."""

import re
from typing import Any

import structlog

from portal.settings.env import text

# the links that are mailed: invitations, new passwords, confirmed addresses
_KEYED = re.compile(
    r"(/(?:invitations|accounts/password/reset/key|accounts/confirm-email)/)[^/\s\"']{12,}"
)


def mask_links(_logger: Any, _name: str, line: dict[str, Any]) -> dict[str, Any]:
    """Structlog processor: keep the kind of such an address, not its secret."""
    for key, value in line.items():
        if isinstance(value, str) and "/" in value:
            line[key] = _KEYED.sub(r"\1***", value)
    return line


LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {
            "()": structlog.stdlib.ProcessorFormatter,
            "processors": [
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                mask_links,
                structlog.processors.JSONRenderer(),
            ],
            "foreign_pre_chain": [
                structlog.contextvars.merge_contextvars,
                structlog.stdlib.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.format_exc_info,
            ],
        }
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["console"], "level": text("LOG_LEVEL")},
    "loggers": {
        "django.server": {"level": "WARNING"},
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},
        "urllib3": {"level": "ERROR"},  # it warns of each connection beyond those that are kept
    },
}
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
    cache_logger_on_first_use=True,
)
