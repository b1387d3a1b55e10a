"""Settings of a real worker process in tests: own folder, own database, the fake machine."""

import os

from portal.settings.base import *  # noqa: F403

INSTALLED_APPS = [*INSTALLED_APPS, "tests.engineapp.apps.EngineAppConfig"]  # noqa: F405
MIGRATION_MODULES = {"engineapp": None}
ROOT_URLCONF = "tests.engineapp.urls"

if os.environ.get("BERTH_TEST_NO_BUS"):
    BERTH_BUS = ""  # so that wake-ups travel by the broker
