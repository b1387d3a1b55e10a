"""Every route that is not built on the base classes, and why it may be so.

A route that is in neither place fails the guard. Keys are paths as the URL configuration
spells them; a trailing ``*`` covers what a named library mounts.
"""

# Read by machines that watch the portal; the last one only from loopback or with a token.
OPERATIONS = {"/livez", "/readyz", "/metrics"}

# Open to visitors on purpose.
PUBLIC = {
    "/preferences": "language and theme, a cookie for visitors",
    "/^idle/keep/<str:token>": "the link of a mail that warns: signed, for one warning",
    "/^invitations/accept": "the holder of an invitation may have no account yet",
    "/^invitations/<str:secret>/": "the link of an invitation",
    "/^accounts/oidc/login/": "the way to the identity provider",
    "/^accounts/oidc/callback/": "the way back",
    "/api/v1/^auth/device": "the CLI has no account yet; codes are hashed, short and throttled",
    "/api/v1/^auth/device/token": "as above",
}

# Signed in, checked by the view itself.
SIGNED_IN = {
    "/events/stream": "authorises every topic by itself; no database connection while it streams",
    "/api/v1/schema": "the description of the API",
    "/api/docs": "the description of the API, to read",
    "/^settings/^\\Z": "redirects to the profile",
}

# The Hub: containers and visitors of workspaces; docs/dev/hubapi.md has its own rules.
HUB_PREFIXES = ("/^hub/", "/^logout")

# Pages of django-allauth: LoginRequiredMiddleware closes all but those it marks public.
LIBRARY = ("allauth.",)
LIBRARY_REDIRECTS = "/^accounts/social/"
