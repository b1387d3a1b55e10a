"""Settings of a real worker process in tests: own folder, own database, the fake machine."""

from portal.settings.base import *  # noqa: F403

INSTALLED_APPS = [*INSTALLED_APPS, "tests.engineapp.apps.EngineAppConfig"]  # noqa: F405
MIGRATION_MODULES = {"engineapp": None}
ROOT_URLCONF = "tests.engineapp.urls"
