from django.apps import AppConfig


class ImagesConfig(AppConfig):
    name = "images"

    def ready(self) -> None:
        from images import services
        from runtime import gateway

        gateway.register(services.QUESTION, services.answer, outside=True)
