"""WSGI entry point, for servers that know nothing else (streams need ASGI)."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")

from django.core.wsgi import get_wsgi_application

application = get_wsgi_application()
