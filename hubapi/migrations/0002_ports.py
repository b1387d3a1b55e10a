from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("hubapi", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="client",
            name="parent_uid",
            field=models.UUIDField(db_index=True, null=True),
        ),
    ]
