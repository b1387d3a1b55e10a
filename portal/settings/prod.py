"""A shared installation: refuses to start half-configured."""

from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from portal.settings.base import *
from portal.settings.env import flag, words

if not SECRET_KEY:
    message = "BERTH_SECRET_KEY (or BERTH_SECRET_KEY_FILE) must be set."
    raise ImproperlyConfigured(message)
# Browsers treat this machine's own names as secure: enough to try an installation.
_host = urlsplit(BERTH_PUBLIC_URL).hostname or ""
_own = _host in {"localhost", "127.0.0.1", "::1"} or _host.endswith(".localhost")
if not BERTH_SECURE and not _own:
    message = "BERTH_PUBLIC_URL must start with https:// in production."
    raise ImproperlyConfigured(message)

ALLOWED_HOSTS = [*words("ALLOWED_HOSTS"), *OWN_HOSTS]
BERTH_LOCAL_CLUSTER = flag("LOCAL_CLUSTER", default=False)  # workspaces run elsewhere
LOGGING["handlers"]["console"]["stream"] = "ext://sys.stdout"
STATIC_ROOT = BERTH_STATIC_DIR
if STATIC_ROOT.is_dir():  # collected when the image was built
    WHITENOISE_USE_FINDERS = False
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
}
