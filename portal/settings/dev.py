"""One machine (``make run``): SQLite, embedded broker, loopback."""

from portal.settings.base import *
from portal.settings.env import refuse

BERTH_SCRIPTED_GPUS = True  # BERTH_FAKE_GPUS=2xH100-80 may stand for real ones
refuse(globals())
