"""A shared installation: refuses to start half-configured."""

from django.core.exceptions import ImproperlyConfigured

from portal.settings.base import *

if not SECRET_KEY:
    message = "BERTH_SECRET_KEY (or BERTH_SECRET_KEY_FILE) must be set."
    raise ImproperlyConfigured(message)
if not BERTH_SECURE:
    message = "BERTH_PUBLIC_URL must start with https:// in production."
    raise ImproperlyConfigured(message)
