from django.apps import AppConfig


class ParkingConfig(AppConfig):
    name = "parking"

    def ready(self) -> None:
        from events import verbs
        from hubapi.notices import notices
        from parking.choices import changes_in_words
        from parking.lab import idle_notices
        from parking.panel import panel
        from work.ui.panels import panels

        verbs.register_details(("idle-policy.changed",), changes_in_words)
        panels.register(panel)
        notices.register(idle_notices)
