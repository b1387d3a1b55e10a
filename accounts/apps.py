from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "accounts"

    def ready(self) -> None:
        from django.core.checks import register

        from accounts.checks import refusals_are_known

        register(refusals_are_known)
