"""Credentials of every kind and of one person."""

from django.conf import settings
from django.db import migrations, models


def name_hosts(apps, schema_editor):
    """What a credential opens is kept among what may be shown of it."""
    rows = apps.get_model("credentials", "Credential").objects.filter(kind="registry")
    for row in rows.only("pk", "public", "target").iterator():
        row.public = {**row.public, "host": row.target}
        row.save(update_fields=["public"])


def forget_hosts(apps, schema_editor):
    rows = apps.get_model("credentials", "Credential").objects.filter(kind="registry")
    for row in rows.only("pk", "public").iterator():
        row.public = {k: v for k, v in row.public.items() if k != "host"}
        row.save(update_fields=["public"])


class Migration(migrations.Migration):
    dependencies = [
        ("credentials", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField("credential", "description", models.CharField(blank=True, default="", max_length=500)),
        migrations.AddField("credential", "warned", models.CharField(blank=True, default="", max_length=8)),
        migrations.AlterField(
            "credential",
            "kind",
            models.CharField(
                choices=[
                    ("s3", "Amazon S3"),
                    ("s3-compatible", "S3-compatible store"),
                    ("gcs", "Google Cloud Storage"),
                    ("registry", "Container registry"),
                    ("git", "Git token"),
                    ("ssh", "Private SSH key"),
                    ("generic", "Other secret"),
                ],
                max_length=16,
            ),
        ),
        migrations.AlterField(
            "credential",
            "last_used_for",
            models.CharField(
                blank=True,
                choices=[
                    ("pull", "handed to a cluster to pull images"),
                    ("check", "an image was looked up"),
                    ("test", "it was tested"),
                    ("work", "given to work that started"),
                    ("load", "a load copied with it"),
                ],
                default="",
                max_length=16,
            ),
        ),
        migrations.AddConstraint(
            "credential",
            models.UniqueConstraint(
                condition=models.Q(("project__isnull", True)),
                fields=("owner", "name"),
                name="credentials_own_name_once",
            ),
        ),
        migrations.RunPython(name_hosts, forget_hosts, elidable=True),
    ]
