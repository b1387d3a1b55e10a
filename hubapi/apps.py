from django.apps import AppConfig


class HubapiConfig(AppConfig):
    name = "hubapi"
