"""ASGI entry point of ``web``."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")

import django

from portal.server.handler import Handler

django.setup(set_prefix=False)
application = Handler()
