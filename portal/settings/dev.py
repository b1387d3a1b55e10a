"""One machine (``make run``): SQLite, embedded broker, loopback."""

from portal.settings.base import *

BERTH_SCRIPTED_GPUS = True  # BERTH_FAKE_GPUS=2xH100-80 may stand for real ones
