"""One machine (``make run``): SQLite, embedded broker, loopback."""

from portal.settings.base import *
