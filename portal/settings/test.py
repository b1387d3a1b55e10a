"""Tests: no network, nothing outside a temporary folder, the fake driver unless a test says so."""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("BERTH_SECRET_KEY", "test-only-key-that-is-long-enough-for-every-check")
if "BERTH_VAR" not in os.environ:
    os.environ["BERTH_VAR"] = tempfile.mkdtemp(prefix="berth-test-")

from portal.settings import deploy as _database
from portal.settings.base import *
from portal.settings.env import refuse

BERTH_CREDENTIAL_KEYS = ["test-only-credential-key"]
ALLOWED_HOSTS = ["*"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
CELERY_TASK_ALWAYS_EAGER = False
CELERY_BROKER_URL = "memory://localhost"  # without a host kombu warns of it
CELERY_BROKER_TRANSPORT_OPTIONS = {}
BERTH_BUS = ""
# tests empty tables; what guards the audit log is tried explicitly (tests/events)
BERTH_AUDIT_GUARD = os.environ.get("BERTH_AUDIT_GUARD") == "yes"
BERTH_LOCAL_DRIVER = "fake"
BERTH_ROUTER = "fake"
WHITENOISE_AUTOREFRESH = True
_var = Path(os.environ["BERTH_VAR"])
_database_entry = _database.from_url(text("TEST_DATABASE_URL"), _var)
if _database_entry["ENGINE"].endswith("sqlite3") and not text("TEST_DATABASE_URL"):
    # A file, as in real life: a database in memory can't be used by several threads.
    _database_entry["TEST"] = {"NAME": str(_var / "test.sqlite3")}
DATABASES = {"default": _database_entry}
LOGGING["root"]["level"] = "WARNING"
# Kinds of work of the tests' own; the table of the first is made without migrations.
INSTALLED_APPS = [
    *INSTALLED_APPS,
    "tests.engineapp.apps.EngineAppConfig",
    "tests.work.tiny.apps.TinyConfig",
]
MIGRATION_MODULES = {"engineapp": None}
refuse(globals())
