"""Mounted at the root: sign-in under /accounts/, the own pages under /settings/."""

from django.urls import include, path
from django.views.generic import RedirectView

from accounts import ui

settings_urls = [
    path("", RedirectView.as_view(pattern_name="accounts:profile"), name="settings"),
    path("profile", ui.Profile.as_view(), name="profile"),
    path("security", ui.Security.as_view(), name="security"),
    path("sessions", ui.Sessions.as_view(), name="sessions"),
    path("sessions/<int:session_id>/end", ui.SessionEnd.as_view(), name="session-end"),
    path("sessions/end-others", ui.SessionsEndOthers.as_view(), name="sessions-end-others"),
    path("tokens", ui.Tokens.as_view(), name="tokens"),
    path("tokens/<uuid:uid>/revoke", ui.TokenRevoke.as_view(), name="token-revoke"),
    path("ssh-keys", ui.SshKeys.as_view(), name="ssh-keys"),
    path("ssh-keys/<uuid:uid>/remove", ui.SshKeyRemove.as_view(), name="ssh-key-remove"),
    path("device", ui.Device.as_view(), name="device"),
    path("device/answer", ui.DeviceAnswer.as_view(), name="device-answer"),
]

urlpatterns = [
    path("accounts/", include("allauth.urls")),
    path("settings/", include((settings_urls, "accounts"))),
]
