from django.apps import AppConfig


class GateConfig(AppConfig):
    name = "gate"

    def ready(self) -> None:
        from accounts import hooks
        from gate import rpc
        from gate.ui import tabs

        rpc.register()
        hooks.ssh_servers.register(rpc.ssh_shown)
        tabs.register()
