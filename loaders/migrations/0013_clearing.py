from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('loaders', '0012_mlflow'),
    ]

    operations = [
        migrations.AlterField(
            model_name='load',
            name='task',
            field=models.CharField(choices=[('load', 'Load'), ('retry', 'Retry of the failed ones'), ('dry-run', 'Dry run'), ('verify', 'Check against the manifest'), ('clear', 'Removal of what was copied')], default='load', max_length=8),
        ),
        migrations.AlterField(
            model_name='loadrun',
            name='task',
            field=models.CharField(choices=[('load', 'Load'), ('retry', 'Retry of the failed ones'), ('dry-run', 'Dry run'), ('verify', 'Check against the manifest'), ('clear', 'Removal of what was copied')], max_length=8),
        ),
    ]
