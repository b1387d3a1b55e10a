from django.db import migrations


class Migration(migrations.Migration):
    """The version before still reads the column: it goes with the next one."""

    dependencies = [("clusters", "0014_farewell_queues")]
    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.RemoveField("claim", "given_back")]
        )
    ]
