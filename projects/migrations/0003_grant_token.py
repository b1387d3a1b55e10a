from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("projects", "0002_places"),
    ]

    operations = [
        migrations.AddField(
            model_name="kubegrant",
            name="token_uid",
            field=models.UUIDField(editable=False, null=True),
        ),
    ]
