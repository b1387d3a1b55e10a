from django.apps import AppConfig


class GateConfig(AppConfig):
    name = "gate"

    def ready(self) -> None:
        from accounts import hooks
        from gate import hostkey, objects, rpc
        from gate.ui import tabs

        rpc.register()
        hostkey.register()
        hooks.ssh_servers.register(hostkey.shown)
        objects.register()
        tabs.register()
