from django.apps import AppConfig


class TinyConfig(AppConfig):
    """The least kind of work; tests that want it register it (the fixture ``tiny``)."""

    name = "tests.work.tiny"
    label = "tiny"
