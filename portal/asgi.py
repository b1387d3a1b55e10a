"""ASGI entry point of ``web``."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")

from django.core.asgi import get_asgi_application

application = get_asgi_application()
