from django.urls import path

from accounts.oidc import provider

urlpatterns = [
    path("oidc/login/", provider.login, name="oidc_login"),
    path("oidc/callback/", provider.callback, name="oidc_callback"),
]
