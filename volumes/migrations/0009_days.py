"""How full volumes were, by day."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('projects', '0003_grant_token'),
        ('volumes', '0008_growing'),
    ]

    operations = [
        migrations.CreateModel(
            name='VolumeDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField(db_index=True)),
                ('used_bytes', models.PositiveBigIntegerField()),
                ('at_least', models.BooleanField(default=False)),
                ('size_limit_mib', models.PositiveBigIntegerField(null=True)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='projects.project')),
                ('volume', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='days', to='volumes.volume')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('volume', 'day'), name='volumes_day_once')],
            },
        ),
    ]
