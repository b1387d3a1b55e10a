"""One machine (``make run``): SQLite, embedded broker, loopback."""

from portal.settings.base import *
from portal.settings.env import refuse

refuse(globals())
