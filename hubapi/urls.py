"""Everything under /hub, and Lab's /logout.

No trailing slashes: servers POST here, and a redirect would lose the body.
"""

from django.urls import include, path

from hubapi import api, cli, notices, pages

_hub = [
    path("", pages.home, name="root"),
    path("home", pages.home, name="home"),
    path("login", pages.login, name="login"),
    path("logout", pages.logout, name="logout"),
    path("consent", pages.consent, name="consent"),
    path("spawn", pages.home, name="spawn-any"),
    path("spawn/<str:owner>", pages.home_of, name="spawn-of"),
    path("spawn/<str:owner>/<str:server>", pages.spawn, name="spawn"),
    path("user-redirect", pages.user_redirect, name="user-redirect-root"),
    path("user-redirect/<path:path>", pages.user_redirect, name="user-redirect"),
    path("424", pages.stopped, name="stopped"),
    path("api", api.root, name="api"),
    path("api/", api.root, name="api-slash"),
    path("api/oauth2/authorize", pages.authorize, name="authorize"),
    path("api/oauth2/token", api.token, name="token"),
    path("api/user", api.user, name="user"),
    path("api/users", api.users, name="users"),
    path("api/users/<str:name>/activity", api.activity_push, name="activity"),
    path("api/groups", api.groups, name="groups"),
    path("api/shares/<str:owner>/<str:server>", api.shares, name="shares"),
    path("api/berth/token", cli.token, name="cli-token"),
    path("api/notices/<str:owner>/<str:server>", notices.workload_notices, name="notices"),
]

urlpatterns = [
    path("hub/", include((_hub, "hubapi"))),
    # JupyterLab under host routing logs out at <portal><prefix>logout, and its prefix is "/".
    path("logout", pages.logout, name="lab-logout"),
]
