from django.db import migrations


class Migration(migrations.Migration):
    """Another name for the class; the table stays, since the version before writes to it."""

    dependencies = [
        ("projects", "0003_grant_token"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameModel("ProjectPlace", "ProjectNamespace"),
                migrations.AlterModelTable("projectnamespace", "projects_projectplace"),
            ],
        ),
    ]
