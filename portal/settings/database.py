"""The database from one URL: SQLite for one machine, PostgreSQL for the rest."""

from pathlib import Path
from typing import Any

import environ


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
