"""The Celery application: it only wakes people up (docs/dev/reconciler.md)."""

import contextlib
import os
from pathlib import Path

from celery import Celery
from celery.signals import setup_logging
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")

app = Celery("berth")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def leave_logging(**_: object) -> None:
    """Let Celery set up none: its loggers of tasks would write plain lines beside the JSON."""


def prepare_broker() -> None:
    """Make the folders of the embedded broker; a real one needs nothing."""
    options = settings.CELERY_BROKER_TRANSPORT_OPTIONS
    for name in ("data_folder_in", "data_folder_out", "control_folder", "processed_folder"):
        if name in options:
            with contextlib.suppress(OSError):
                Path(str(options[name])).mkdir(parents=True, exist_ok=True, mode=0o700)
