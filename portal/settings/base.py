"""Every setting, once. ``dev``, ``test`` and ``prod`` only override.

All come from the environment as ``BERTH_…`` (or ``BERTH_…_FILE`` for secrets);
``portal.settings.table`` says what each may be, its default and what it means.
"""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.utils.translation import gettext_lazy as _

from portal.settings import deploy
from portal.settings.deploy import *
from portal.settings.env import ROOT, VAR, flag, number, text, words
from portal.settings.people import *

BASE_DIR = ROOT
BERTH_VERSION = "0.1.0"
BERTH_VAR = VAR
# Less room than this on its disk: nothing new begins (common.disk). 0: not looked at.
BERTH_DISK_FLOOR_MIB = number("DISK_FLOOR_MIB")
BERTH_DISK_RESERVE_MIB = number("DISK_RESERVE_MIB")  # held for itself beside SQLite
DEBUG = False
SECRET_KEY = text("SECRET_KEY")
SECRET_KEY_FALLBACKS = words("SECRET_KEY_FALLBACKS")
BERTH_CREDENTIAL_KEYS = words("CREDENTIAL_KEYS")  # newest first; all of them open

# --- Addresses ------------------------------------------------------------------------------
BERTH_BIND = text("BIND")
BERTH_PORT = number("PORT")
BERTH_PROXY_PORT = number("PROXY_PORT", BERTH_PORT + 1)
# Of one address on a listener for browsers; behind a proxy of yours they are not told apart.
BERTH_CONNECTIONS_PER_ADDRESS = number("CONNECTIONS_PER_ADDRESS")
BERTH_INTERNAL_PORT = number("INTERNAL_PORT", BERTH_PORT + 2)
BERTH_PROXY_API_PORT = number("PROXY_API_PORT", BERTH_PORT + 3)
BERTH_PROXY_TOKEN = text("PROXY_TOKEN")
# every proxy that carries people to workspaces; each gets every route
BERTH_PROXY_API_URLS = words("PROXY_API_URLS", [f"http://127.0.0.1:{BERTH_PROXY_API_PORT}"])
BERTH_PUBLIC_URL = text("PUBLIC_URL", f"http://localhost:{BERTH_PORT}").rstrip("/")
# host: one host per workspace under NOTEBOOK_DOMAIN; path: one other host, path per workspace.
BERTH_NOTEBOOK_ROUTING = text("NOTEBOOK_ROUTING")
BERTH_NOTEBOOK_DOMAIN = text("NOTEBOOK_DOMAIN")
BERTH_NOTEBOOK_SCHEME = text("NOTEBOOK_SCHEME")
BERTH_NOTEBOOK_PORT = number("NOTEBOOK_PORT", BERTH_PROXY_PORT)  # as the browser sees it
BERTH_NOTEBOOK_PATH_HOST = text("NOTEBOOK_PATH_HOST")
BERTH_INTERNAL_URL = text("INTERNAL_URL", f"http://127.0.0.1:{BERTH_INTERNAL_PORT}")
# gate: terminal, logs, files and SSH of work on clusters. Its paths start with /gate/.
BERTH_GATE_PORT = number("GATE_PORT", BERTH_PORT + 4)
BERTH_SSH_PORT = number("SSH_PORT", BERTH_PORT + 5)
BERTH_GATE_INTERNAL_PORT = number("GATE_INTERNAL_PORT", BERTH_PORT + 6)
BERTH_GATE_INTERNAL_BIND = text("GATE_INTERNAL_BIND")
# As programs reach it, with tokens: another port of the portal's host; the portal's own address
# where an entrance has both.
_portal = BERTH_PUBLIC_URL.removesuffix(f":{BERTH_PORT}")
_gate = _portal if _portal == BERTH_PUBLIC_URL else f"{_portal}:{BERTH_GATE_PORT}"
BERTH_GATE_URL = text("GATE_URL", _gate).rstrip("/")
# gateway: requests to endpoints. Its paths start with /e/.
BERTH_GATEWAY_PORT = number("GATEWAY_PORT", BERTH_PORT + 7)
_gateway = _portal if _portal == BERTH_PUBLIC_URL else f"{_portal}:{BERTH_GATEWAY_PORT}"
BERTH_GATEWAY_URL = text("GATEWAY_URL", _gateway).rstrip("/")
# As pages lead browsers there. On a port of its own it has another host than the portal: cookies
# ignore ports, and who poses as the gate there is not to be sent the portal's.
_beside = urlsplit(BERTH_GATE_URL)
_host = BERTH_NOTEBOOK_PATH_HOST
if BERTH_NOTEBOOK_ROUTING == "host":
    _host = f"gate.{BERTH_NOTEBOOK_DOMAIN}"
if BERTH_GATE_URL == BERTH_PUBLIC_URL or _beside.hostname != urlsplit(BERTH_PUBLIC_URL).hostname:
    _pages = BERTH_GATE_URL
else:
    _pages = f"{_beside.scheme}://{_host}" + (f":{_beside.port}" if _beside.port else "")
BERTH_GATE_PAGES_URL = text("GATE_PAGES_URL", _pages).rstrip("/")
BERTH_GATE_INTERNAL_URL = text(
    "GATE_INTERNAL_URL", f"http://127.0.0.1:{BERTH_GATE_INTERNAL_PORT}"
).rstrip("/")
BERTH_GATE_TOKEN = text("GATE_TOKEN")
BERTH_GATE_STREAMS = number("GATE_STREAMS")
BERTH_GATE_STREAMS_PER_USER = number("GATE_STREAMS_PER_USER")
BERTH_GATE_IDLE_S = number("GATE_IDLE_S")
BERTH_SSH_CONNECTIONS_PER_USER = number("SSH_CONNECTIONS_PER_USER")
BERTH_FILES_IDLE_MINUTES = number("FILES_IDLE_MINUTES")  # then a file browser ends
BERTH_SSH_HOST = text("SSH_HOST")  # as people reach it; "": the portal's host
BERTH_SSH_HOST_KEY_FILE = text("SSH_HOST_KEY_FILE", str(VAR / "ssh" / "host_key"))
# Its own two names, besides what is listed: pages, and what workloads and probes ask.
_names = [urlsplit(url).hostname for url in (BERTH_PUBLIC_URL, BERTH_INTERNAL_URL)]
OWN_HOSTS = [name for name in _names if name]
ALLOWED_HOSTS = [*words("ALLOWED_HOSTS"), *OWN_HOSTS]
CSRF_TRUSTED_ORIGINS = words("CSRF_TRUSTED_ORIGINS")

# --- Applications ---------------------------------------------------------------------------
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django.forms",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "accounts.oidc",
    "allauth.mfa",
    "allauth.usersessions",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_filters",
    "django_tables2",
    "django_htmx",
    "common",
    "events",
    "notifications",
    "runtime",
    "accounts",
    "clusters",
    "projects",
    "metrics",
    "credentials",
    "webhooks",
    "images",
    "quotas",
    "volumes",
    "budgets",
    "work",
    "loaders",
    "files",
    "parking",
    "fleet",
    "hubapi",
    "queues",
    "notebooks",
    "jobs",
    "experiments",
    "perftests",
    "serving",
    "usage",
    "gate",
    "console",
    "portal",
]

MIDDLEWARE = [
    "portal.monitoring.AnyHostMiddleware",
    "common.middleware.RequestContextMiddleware",
    "common.middleware.ListenerMiddleware",
    "common.metrics.RequestMetricsMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "common.middleware.ContentSecurityPolicyMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "allauth.usersessions.middleware.UserSessionsMiddleware",
    "accounts.middleware.PrincipalMiddleware",
    "projects.middleware.DenialMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "common.middleware.BerthErrorMiddleware",
    "portal.read_only.ReadOnlyMiddleware",
]

ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"
WSGI_APPLICATION = "portal.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.navigation.shell",
            ],
            "builtins": ["common.templatetags.berth"],
            "libraries": {
                "accounts_tags": "accounts.ui",
                "events": "events.verbs",
                "projects": "projects.ui.base",
                "volumes": "volumes.ui.present",
            },
        },
    }
]
FORM_RENDERER = "common.ui.components.BerthFormRenderer"

# --- Data -----------------------------------------------------------------------------------
BERTH_REDIS_URL = text("REDIS_URL")
DATABASES = {"default": deploy.from_url(text("DATABASE_URL"), VAR)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
if BERTH_REDIS_URL:
    CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": BERTH_REDIS_URL,
            "OPTIONS": {
                "socket_timeout": 2,
                "socket_connect_timeout": 2,
                "serializer": "common.caching.JsonSerializer",
            },
        }
    }
else:
    CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.db.DatabaseCache",
            "LOCATION": "berth_cache",
        }
    }
SESSION_ENGINE = "django.contrib.sessions.backends.db"

# --- Background work ------------------------------------------------------------------------
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False  # a lost message loses nothing: the sweep finds what is due
CELERY_TASK_SOFT_TIME_LIMIT = 45
CELERY_TASK_TIME_LIMIT = 60
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
# The timetable is code; the clock runs inside ``worker`` (portal.beat). Apps add their lines.
CELERY_BEAT_SCHEDULE: dict[str, dict[str, object]] = {}
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
if BERTH_REDIS_URL:
    CELERY_BROKER_URL = BERTH_REDIS_URL
    CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = {
        "visibility_timeout": 300,
        "socket_timeout": 2,
        "socket_connect_timeout": 2,
        # Whoever sends a wake-up waits once; what consumes connects again by a loop of its own.
        "max_retries": 0,
    }
else:
    _broker = VAR / "broker"
    # Nothing asks the host: without one each process warns that there is none.
    CELERY_BROKER_URL = "filesystem://localhost"
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(_broker / "queue"),
        "data_folder_out": str(_broker / "queue"),
        "control_folder": str(_broker / "control"),
        "processed_folder": str(_broker / "processed"),
        "store_processed": False,
        # Wake-ups go straight to the worker (runtime.bus); this is for the rest.
        "polling_interval": 0.5,
    }
# bus: "" = no bus (tests), "unix" = datagram sockets in BERTH_BUS_DIR, else Redis pub/sub
BERTH_BUS = "redis" if BERTH_REDIS_URL else "unix"
BERTH_BUS_DIR = VAR / "run" / "bus"

# --- Work on this machine ---------------------------------------------------------------------
# In a folder of its own: started as root, it belongs to root, and berth must not replace it.
BERTH_SUPERVISOR_SOCKET = Path(text("SUPERVISOR_SOCKET", str(VAR / "supervisor" / "sock")))
BERTH_WORKLOADS_DIR = Path(text("WORKLOADS_DIR", str(VAR / "workloads")))
BERTH_VOLUMES_DIR = Path(text("VOLUMES_DIR", str(VAR / "volumes")))
BERTH_VOLUME_UNDO_DAYS = number("VOLUME_UNDO_DAYS")  # a deleted volume can be brought back
BERTH_ENVIRONMENTS_DIR = Path(text("ENVIRONMENTS_DIR", str(VAR / "environments")))
# clusters that exist without a row being made by hand: key -> driver
BERTH_LOCAL_CLUSTER = flag("LOCAL_CLUSTER")
BERTH_LOCAL_DRIVER = text("LOCAL_DRIVER")
BERTH_SIMULATED_GPUS = text("SIMULATED_GPUS")
BERTH_DEMO = flag("DEMO")
# Kubeconfigs are sealed to the public key; only worker and gate are given the private one
# (several, comma-separated, after a change: the first is the one of now).
BERTH_CLUSTER_PUBLIC_KEY = text("CLUSTER_PUBLIC_KEY")
BERTH_CLUSTER_PRIVATE_KEY = words("CLUSTER_PRIVATE_KEY")
BERTH_ROUTER = text("ROUTER")
# how much more may be asked for in all than the machine has (the local queue)
BERTH_CPU_OVERCOMMIT = number("CPU_OVERCOMMIT")
BERTH_MEMORY_OVERCOMMIT = number("MEMORY_OVERCOMMIT")
BERTH_QUEUE_PASSING_MINUTES = number("QUEUE_PASSING_MINUTES")
BERTH_RECLAIM_GRACE_SECONDS = number("RECLAIM_GRACE_SECONDS")
BERTH_SMOKE_SECONDS = number("SMOKE_SECONDS")
BERTH_PERFTEST_IMAGE = text("PERFTEST_IMAGE")
BERTH_CHECKPOINT_SECONDS = number("CHECKPOINT_SECONDS")
BERTH_OUTPUT_DAYS = number("OUTPUT_DAYS")
BERTH_CALLS_DAYS = number("CALLS_DAYS")
BERTH_RETURN_TICKET_DAYS = number("RETURN_TICKET_DAYS")
BERTH_CURRENCY = text("CURRENCY")  # of every price (ISO 4217)

# --- The way out ---------------------------------------------------------------------------------
# Addresses that users write are reached only through common.outbound, and only public ones;
# the operator may open ranges (10.1.0.0/16, 10.1.2.3:5000) and ports, and name registries that
# speak plain HTTP.
BERTH_OUTBOUND_ALLOW = words("OUTBOUND_ALLOW")
BERTH_OUTBOUND_PORTS = words("OUTBOUND_PORTS")
BERTH_OUTBOUND_CA_FILE = text("OUTBOUND_CA_FILE")
BERTH_IMAGE_SIGN_INS_FILE = text("IMAGE_SIGN_INS_FILE")
BERTH_INSECURE_REGISTRIES = words("INSECURE_REGISTRIES")
BERTH_IMAGE_MAX_GIB = number("IMAGE_MAX_GIB")  # 0: no limit

# --- Watching Berth -----------------------------------------------------------------------------
# empty: /metrics answers this machine only; set: whoever sends it as a bearer token
BERTH_METRICS_TOKEN = text("METRICS_TOKEN")

# --- People -----------------------------------------------------------------------------------
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 10},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "account_login"
BERTH_OIDC_NAME = text("OIDC_NAME")
BERTH_OIDC_ISSUER = text("OIDC_ISSUER")
BERTH_OIDC_CLIENT_ID = text("OIDC_CLIENT_ID")
BERTH_OIDC_CLIENT_SECRET = text("OIDC_CLIENT_SECRET")
BERTH_OIDC_GROUPS_CLAIM = text("OIDC_GROUPS_CLAIM")
BERTH_SIGNUP_OPEN = flag("SIGNUP_OPEN")
# who may make projects: "anyone" or "operators"
BERTH_PROJECT_CREATION = text("PROJECT_CREATION")

SESSION_COOKIE_NAME = "berth_session"
CSRF_COOKIE_NAME = "berth_csrf"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "portal.views.csrf_failed"
SESSION_COOKIE_AGE = 14 * 24 * 3600
BERTH_SECURE = BERTH_PUBLIC_URL.startswith("https://")
BERTH_TLS_CERT = text("TLS_CERT")  # files: Berth answers browsers by TLS itself
BERTH_TLS_KEY = text("TLS_KEY")
BERTH_BEHIND_TLS_PROXY = flag("BEHIND_TLS_PROXY")  # or something in front of it does
_redirect, _hsts_seconds = flag("SSL_REDIRECT"), number("HSTS_SECONDS")
if BERTH_SECURE:
    SESSION_COOKIE_NAME = "__Host-berth_session"
    CSRF_COOKIE_NAME = "__Host-berth_csrf"
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True
    SECURE_SSL_REDIRECT = _redirect
    # Workloads, the proxy and probes ask the internal listener, which speaks plain HTTP.
    SECURE_REDIRECT_EXEMPT = [r"^hub/api(/|$)", r"^hub/424$", r"^(livez|readyz|metrics)$"]
    SECURE_HSTS_SECONDS = _hsts_seconds
    SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    SECURE_HSTS_PRELOAD = True
    if BERTH_BEHIND_TLS_PROXY:
        SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024

# --- Mail ---------------------------------------------------------------------------------------
EMAIL_BACKEND = text("EMAIL_BACKEND")
if EMAIL_BACKEND == "django.core.mail.backends.smtp.EmailBackend" and BERTH_OUTBOUND_CA_FILE:
    EMAIL_BACKEND = "common.trust.SmtpBackend"
EMAIL_HOST = text("EMAIL_HOST")
EMAIL_PORT = number("EMAIL_PORT")
EMAIL_HOST_USER = text("EMAIL_HOST_USER")
EMAIL_HOST_PASSWORD = text("EMAIL_HOST_PASSWORD")
EMAIL_USE_TLS = flag("EMAIL_USE_TLS")
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = text("FROM_EMAIL")

# --- Language, time, files --------------------------------------------------------------------
LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("ja", _("Japanese"))]
LOCALE_PATHS = [ROOT / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "/static/"
STATIC_ROOT = VAR / "static"
_static: list[Any] = [
    ROOT / "static",
    ("vendor/tabler", ROOT / "node_modules/@tabler/core/dist"),
    # files of some signs each: a browser asks for those that a page has
    ("vendor/inter", ROOT / "node_modules/@fontsource-variable/inter"),
    ("vendor/noto-sans-jp", ROOT / "node_modules/@fontsource-variable/noto-sans-jp"),
    ("vendor/tabler-icons", ROOT / "node_modules/@tabler/icons-webfont/dist"),
    ("vendor/htmx-ext-sse", ROOT / "node_modules/htmx-ext-sse"),
    ("vendor/uplot", ROOT / "node_modules/uplot/dist"),
    ("vendor/xterm", ROOT / "node_modules/@xterm/xterm/lib"),
    ("vendor/xterm-css", ROOT / "node_modules/@xterm/xterm/css"),
    ("vendor/xterm-fit", ROOT / "node_modules/@xterm/addon-fit/lib"),
]
STATICFILES_DIRS = [d for d in _static if Path(d[1] if isinstance(d, tuple) else d).is_dir()]
WHITENOISE_USE_FINDERS = True


def _keep_fonts(headers: Any, _path: str, url: str) -> None:
    """They change with a release, if ever; asking for each of them on each page is slow."""
    if url.endswith(".woff2"):
        headers["Cache-Control"] = f"public, max-age={30 * 24 * 3600}"


WHITENOISE_ADD_HEADERS_FUNCTION = _keep_fonts
DJANGO_TABLES2_TEMPLATE = "components/table.html"

# --- API ----------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "accounts.api.authentication.TokenAuthentication",
        "accounts.api.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_THROTTLE_CLASSES": ["accounts.fair_use.FairUseThrottle"],
    "DEFAULT_PARSER_CLASSES": ["common.drf.parsers.ShallowJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PAGINATION_CLASS": "common.paging.CursorPagination",
    "PAGE_SIZE": 50,
    "EXCEPTION_HANDLER": "common.drf.views.problem_handler",
    "DEFAULT_SCHEMA_CLASS": "common.drf.serializers.BerthAutoSchema",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
    "STRICT_JSON": True,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
PHASES = ["pending", "starting", "running", "stopping", "stopped", "failed"]
PHASES += ["deleting", "deleted", "unknown"]
SPECTACULAR_SETTINGS = {
    "TITLE": "Berth API",
    "DESCRIPTION": "Everything the pages and the CLI do, as HTTP.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "common.drf.serializers.add_problem",
    ],
    "ENUM_ADD_EXPLICIT_BLANK_NULL_CHOICE": True,
    "ENUM_NAME_OVERRIDES": {
        "KubeconfigKindEnum": "projects.choices.GrantKind",
        "PresetKindEnum": ["notebook", "container"],
        "WorkspaceKindEnum": ["notebook", "container", "tensorboard"],
        "BudgetModeEnum": "budgets.choices.Mode",
        "IdleActEnum": "parking.choices.Act",
        "IdleStateEnum": "parking.choices.State",
        "ModeEnum": ["copy", "sync"],
        "EndpointStateEnum": "serving.choices.State",
        "ReplicaOutStateEnum": ["missing", "created", "starting", "ready", "stopping", "exited"],
        "SearchStateEnum": "experiments.choices.State",
        "TrialStateEnum": "experiments.choices.TrialState",
        "PerfTestStateEnum": "perftests.choices.State",
        "SearchReasonEnum": "experiments.choices.Reason",
        "FrameworkEnum": ["none", "pytorch", "tensorflow", "mpi"],
        "ModelFrameworkEnum": "serving.choices.Framework",
        "PhaseEnum": PHASES,  # each of them is a state of a workspace
    },
}
