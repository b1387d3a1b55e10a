"""A shared installation: refuses to start half-configured."""

from urllib.parse import urlsplit

from portal.settings import env as _env
from portal.settings.base import *
from portal.settings.env import flag, refuse, words

_needed: list[str] = []
if not SECRET_KEY and "SECRET_KEY" not in _env.wrong:
    _needed.append("BERTH_SECRET_KEY (or BERTH_SECRET_KEY_FILE) must be set.")
# Browsers treat this machine's own names as secure: enough to try an installation.
_host = urlsplit(BERTH_PUBLIC_URL).hostname or ""
_own = _host in {"localhost", "127.0.0.1", "::1"} or _host.endswith(".localhost")
if not BERTH_SECURE and not _own:
    _needed.append("BERTH_PUBLIC_URL must start with https:// in production.")

ALLOWED_HOSTS = [*words("ALLOWED_HOSTS", []), *OWN_HOSTS]
BERTH_LOCAL_CLUSTER = flag("LOCAL_CLUSTER", default=False)  # workspaces run elsewhere
LOGGING["handlers"]["console"]["stream"] = "ext://sys.stdout"
STATIC_ROOT = BERTH_STATIC_DIR
if STATIC_ROOT.is_dir():  # collected when the image was built
    WHITENOISE_USE_FINDERS = False
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
}
refuse(globals(), tuple(_needed))
