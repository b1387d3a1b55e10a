from django.apps import AppConfig


class OidcConfig(AppConfig):
    name = "accounts.oidc"
    label = "accounts_oidc"
