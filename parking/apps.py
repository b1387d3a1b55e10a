from django.apps import AppConfig


class ParkingConfig(AppConfig):
    name = "parking"

    def ready(self) -> None:
        from events import verbs
        from hubapi.notices import notices
        from notifications.kinds import register_mail_url
        from parking.choices import Act, changes_in_words
        from parking.lab import idle_notices
        from parking.mail_link import mail_link
        from parking.panel import panel
        from work.ui.panels import panels

        verbs.register_details(("idle-policy.changed",), changes_in_words)
        panels.register(panel)
        notices.register(idle_notices)
        for act in (Act.PARK, Act.STOP):
            register_mail_url(f"work.idle-{act}", mail_link)
