"""The test settings, with a real proxy and the control urls."""

from portal.settings.test import *  # noqa: F403

ROOT_URLCONF = "tests.hubapi.live.urls"
BERTH_ROUTER = "chp"
