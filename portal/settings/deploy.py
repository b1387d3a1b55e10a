"""Settings of where and how Berth runs: database, several processes, loads, logs."""

import re
from pathlib import Path
from typing import Any

import environ
import structlog

from portal.settings.env import VAR, flag, mapping, number, text, words


def from_url(url: str, var: Path) -> dict[str, Any]:
    """Return Django's DATABASES entry; an empty URL is SQLite in ``var``."""
    if not url or url.startswith("sqlite"):
        name = str(environ.Env.db_url_config(url)["NAME"]) if url else str(var / "berth.sqlite3")
        return sqlite(name)
    config = dict(environ.Env.db_url_config(url))
    config["ENGINE"] = "django.db.backends.postgresql"
    config["CONN_HEALTH_CHECKS"] = True
    config["OPTIONS"] = {
        "pool": {"min_size": 1, "max_size": 12, "timeout": 10},
        "connect_timeout": 5,
        "options": "-c statement_timeout=30000 -c lock_timeout=10000",
        # What is asked often is planned once for each connection: planning was half of the
        # server's work for a launch. A pooler that changes connections between statements must
        # know prepared statements (PgBouncer 1.21: max_prepared_statements).
        "server_side_binding": True,
        "prepare_threshold": 3,
    }
    return config


def sqlite(name: str) -> dict[str, Any]:
    # IMMEDIATE: a transaction that will write takes the lock at once instead of failing halfway.
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": name,
        "CONN_MAX_AGE": 600,
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": (
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;"
                "PRAGMA cache_size=-8000; PRAGMA temp_store=MEMORY;"
            ),
        },
    }


# Where the listeners for workloads and for Berth's own processes are opened. On one machine
# nobody else may reach them; in a container a NetworkPolicy says who does.
BERTH_INTERNAL_BIND = text("INTERNAL_BIND")
# 0: the worker answers no probes (berth up watches it by its process number)
BERTH_HEALTH_PORT = number("HEALTH_PORT")
# After SIGTERM web still answers for so long: a load balancer needs a moment to look away.
BERTH_DRAIN_SECONDS = number("DRAIN_SECONDS")
BERTH_STATIC_DIR = Path(text("STATIC_DIR", str(VAR / "static")))
# of the first administrator; empty: one is made and shown once
BERTH_ADMIN_PASSWORD = text("ADMIN_PASSWORD")

# The cluster that Berth itself runs in, used through its mounted service account. Only an
# operator's setting can say so: nothing that is pasted leads to this identity.
BERTH_IN_CLUSTER = text("IN_CLUSTER")
BERTH_IN_CLUSTER_NAME = text("IN_CLUSTER_NAME")
# Where BERTH_ROUTER=gateway attaches the routes of workspaces: namespace/name[/listener], and the
# cluster that it is in (empty: the one that Berth runs in).
BERTH_GATEWAY = text("GATEWAY")
BERTH_GATEWAY_CLUSTER = text("GATEWAY_CLUSTER")
# Service of the notebook proxy there, namespace/service:port: WebSockets go through it, so that
# those of a revoked visitor can be cut. Empty: they go straight to the workload and can't.
BERTH_GATEWAY_PROXY = text("GATEWAY_PROXY")
# Attached clusters may lie on this machine's own addresses (trials; never a shared portal).
BERTH_ALLOW_PRIVATE_CLUSTERS = flag("ALLOW_PRIVATE_CLUSTERS")
BERTH_IN_CLUSTER_OPTIONS = mapping("IN_CLUSTER_OPTIONS")
# What machine types, accelerators and runtime versions of AI Platform Training stand for here.
BERTH_AI_PLATFORM = mapping("AI_PLATFORM")


# How large a folder of code may be, packed, that is sent to be run as a job.
BERTH_PACKAGE_MIB = number("PACKAGE_MIB")
# How many loads of one project run at once; the others wait in its line.
BERTH_LOADS_PER_PROJECT = number("LOADS_PER_PROJECT")
# What one load asks of a machine and takes of its project's limits.
BERTH_LOAD_CPU_MILLI = number("LOAD_CPU_MILLI")
BERTH_LOAD_MEMORY_MIB = number("LOAD_MEMORY_MIB")
# How often a load that was cut off (killed, its machine gone) goes on by itself.
BERTH_LOAD_RETRIES = number("LOAD_RETRIES")
# The shortest time between two scheduled runs of one load.
BERTH_LOAD_SCHEDULE_MINUTES = number("LOAD_SCHEDULE_MINUTES")
# Stores (host:port) that speak plain HTTP; without this list every store must speak TLS.
BERTH_INSECURE_STORES = words("INSECURE_STORES")
# In place of Google's own addresses, for trials; never part of what a person pastes.
BERTH_GCS_ENDPOINT = text("GCS_ENDPOINT")
BERTH_GCS_TOKEN_URI = text("GCS_TOKEN_URI")


# the links that are mailed: invitations, new passwords, confirmed addresses, kept work
_KEYED = re.compile(
    r"(/(?:invitations|accounts/password/reset/key|accounts/confirm-email|idle/keep)/)[^/\s\"']{12,}"
)


def mask_links(_logger: Any, _name: str, line: dict[str, Any]) -> dict[str, Any]:
    """Structlog processor: keep the kind of an address that opens something, not its secret."""
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
