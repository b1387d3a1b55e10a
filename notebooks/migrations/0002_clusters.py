import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("notebooks", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="preset",
            name="args",
            field=models.JSONField(
                blank=True,
                db_default=models.Value([], output_field=models.JSONField()),
                default=list,
                verbose_name="arguments",
            ),
        ),
        migrations.AddField(
            model_name="preset",
            name="cluster_key",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=63, verbose_name="cluster"
            ),
        ),
        migrations.AddField(
            model_name="preset",
            name="command",
            field=models.JSONField(
                blank=True,
                db_default=models.Value([], output_field=models.JSONField()),
                default=list,
                verbose_name="command",
            ),
        ),
        migrations.AddField(
            model_name="preset",
            name="image",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=512, verbose_name="image"
            ),
        ),
        migrations.AddField(
            model_name="preset",
            name="network",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=63, verbose_name="extra network"
            ),
        ),
        migrations.AddField(
            model_name="preset",
            name="pool",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=63, verbose_name="pool"
            ),
        ),
        migrations.AddField(
            model_name="preset",
            name="ports",
            field=models.JSONField(
                blank=True,
                db_default=models.Value([], output_field=models.JSONField()),
                default=list,
                verbose_name="ports",
            ),
        ),
        migrations.AddField(
            model_name="preset",
            name="shm_mib",
            field=models.PositiveIntegerField(
                db_default=0,
                default=0,
                validators=[django.core.validators.MaxValueValidator(16777216)],
                verbose_name="shared memory",
            ),
        ),
        migrations.AddField(
            model_name="workspace",
            name="args",
            field=models.JSONField(
                blank=True,
                db_default=models.Value([], output_field=models.JSONField()),
                default=list,
                verbose_name="arguments",
            ),
        ),
        migrations.AddField(
            model_name="workspace",
            name="command",
            field=models.JSONField(
                blank=True,
                db_default=models.Value([], output_field=models.JSONField()),
                default=list,
                verbose_name="command",
            ),
        ),
        migrations.AddField(
            model_name="workspace",
            name="image",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=512, verbose_name="image"
            ),
        ),
        migrations.AddField(
            model_name="workspace",
            name="image_digest",
            field=models.CharField(blank=True, db_default="", default="", max_length=80),
        ),
        migrations.AddField(
            model_name="workspace",
            name="kind",
            field=models.CharField(
                choices=[("notebook", "Notebook"), ("container", "Container")],
                db_default="notebook",
                default="notebook",
                max_length=16,
            ),
        ),
        migrations.AddField(
            model_name="workspace",
            name="network",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=63, verbose_name="extra network"
            ),
        ),
        migrations.AddField(
            model_name="workspace",
            name="pool",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=63, verbose_name="pool"
            ),
        ),
        migrations.AddField(
            model_name="workspace",
            name="ports",
            field=models.JSONField(
                blank=True,
                db_default=models.Value([], output_field=models.JSONField()),
                default=list,
                verbose_name="ports",
            ),
        ),
        migrations.AddField(
            model_name="workspace",
            name="shm_mib",
            field=models.PositiveIntegerField(
                db_default=0,
                default=0,
                validators=[django.core.validators.MaxValueValidator(16777216)],
                verbose_name="shared memory",
            ),
        ),
        migrations.AlterField(
            model_name="preset",
            name="gpu_flavor",
            field=models.CharField(
                blank=True, default="", max_length=255, verbose_name="kind of GPU"
            ),
        ),
        migrations.AlterField(
            model_name="preset",
            name="kind",
            field=models.CharField(
                choices=[("notebook", "Notebook"), ("container", "Container")],
                db_default="notebook",
                default="notebook",
                max_length=16,
            ),
        ),
        migrations.AlterField(
            model_name="workspace",
            name="gpu_flavor",
            field=models.CharField(
                blank=True, default="", max_length=255, verbose_name="kind of GPU"
            ),
        ),
    ]
