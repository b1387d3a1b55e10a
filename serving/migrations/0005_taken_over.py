from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('serving', '0004_batch_inputs'),
    ]

    operations = [
        migrations.AddField(
            model_name='endpoint',
            name='taken_over',
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
