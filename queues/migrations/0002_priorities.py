"""The classes of priority that there are from the beginning."""

from typing import Any

from django.db import migrations

# name, label, value, who may ask for it, the purpose that it is for
CLASSES = [
    ("inference", "Prediction", 10_000, "everybody", "inference"),
    ("build", "Building", 1_000, "everybody", "build"),
    ("urgent", "Urgent", 500, "managers", ""),
    ("train", "Training", 100, "everybody", "train"),
    ("low", "Low", 10, "everybody", ""),
]


def _make(apps: Any, _schema: Any) -> None:
    priority = apps.get_model("queues", "Priority")
    for name, label, value, who, purpose in CLASSES:
        priority.objects.get_or_create(
            name=name, defaults={"label": label, "value": value, "who": who, "purpose": purpose}
        )


class Migration(migrations.Migration):
    dependencies = [("queues", "0001_initial")]
    operations = [migrations.RunPython(_make, migrations.RunPython.noop)]
