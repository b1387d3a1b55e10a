"""What its storage gives a volume, and what became of the wish for more."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('volumes', '0007_defaults_in_the_database'),
    ]

    operations = [
        migrations.AddField(
            model_name='volume',
            name='given_mib',
            field=models.PositiveBigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='volume',
            name='growing_since',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='volume',
            name='growth_refused',
            field=models.CharField(blank=True, db_default='', default='', max_length=400),
        ),
    ]
