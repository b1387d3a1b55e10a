from django.apps import AppConfig


class GateConfig(AppConfig):
    name = "gate"

    def ready(self) -> None:
        from accounts import hooks
        from gate import answers, hostkey, objects
        from gate.ui import tabs

        answers.register()
        hostkey.register()
        hooks.offer_ssh_server(hostkey.shown)
        objects.register()
        tabs.register()
