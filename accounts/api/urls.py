"""Below /api/v1/."""

from django.urls import path

from accounts.api import auth, me, schema, users

assert schema  # noqa: S101 - it registers how one signs in with the OpenAPI document

urlpatterns = [
    path("auth/device", auth.DeviceView.as_view(), name="api-auth-device"),
    path("auth/device/token", auth.DeviceTokenView.as_view(), name="api-auth-device-token"),
    path("me", me.MeView.as_view(), name="api-me"),
    path("me/tokens", me.TokensView.as_view(), name="api-me-tokens"),
    path("me/tokens/<uuid:uid>", me.TokenView.as_view(), name="api-me-token"),
    path("me/sessions", me.SessionsView.as_view(), name="api-me-sessions"),
    path("me/sessions/<int:session_id>", me.SessionView.as_view(), name="api-me-session"),
    path("me/ssh-keys", me.SshKeysView.as_view(), name="api-me-ssh-keys"),
    path("me/ssh-keys/<uuid:uid>", me.SshKeyView.as_view(), name="api-me-ssh-key"),
    path("users", users.UsersView.as_view(), name="api-users"),
    path("users/<uuid:uid>", users.UserView.as_view(), name="api-user"),
]
