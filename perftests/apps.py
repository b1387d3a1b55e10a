from django.apps import AppConfig


class PerfTestsConfig(AppConfig):
    name = "perftests"
