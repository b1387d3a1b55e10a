import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('loaders', '0013_clearing'),
        ('serving', '0003_versions_read_by_themselves'),
    ]

    operations = [
        migrations.AddField(
            model_name='batchprediction',
            name='load',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='predictions', to='loaders.load'),
        ),
    ]
