"""E14: no migration takes from the version before it what its processes still use."""

import pytest
from django.apps import apps
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader

from tests.architecture.migration_rules import Walk

# Added before the first version from which an upgrade without a pause is promised.
OLDER_THAN_THE_PROMISE = {
    *(
        f"clusters.cluster.{name}"
        for name in ("drain", "enabled", "fingerprint", "kinds", "options", "revision", "server")
    ),
    "clusters.cluster.sealed_kubeconfig",
    "clusters.flavor.node_labels",
    "clusters.flavor.resource",
}
# Got their default in the database by a later migration, before it was released.
MENDED = {
    "clusters.flavor.use_source",
    "credentials.credential.description",
    "credentials.credential.warned",
    "loaders.load.tries",
    "loaders.load.uploads",
    *(
        f"volumes.volume.{name}"
        for name in (
            *("abilities", "backing_kind", "backing_options", "cache_mark", "cache_of"),
            *("description", "move_done", "move_serial", "restore_done", "restore_serial"),
            *("used_at_least", "write_policy"),
        )
    ),
}
# The upgrade over these stops the portal: the rows of each kind moved into one table, which no two
# versions can write at once (docs/dev/upgrades.md).
WITH_A_STOP = {
    ("loaders", "0008_workload"),
    ("notebooks", "0008_workload"),
    ("notebooks", "0009_of_a_workload"),
    ("work", "0002_of_a_workload"),
}
# Why a version that does not know a constraint keeps it all the same.
KEPT_BY_OLDER_VERSIONS = {
    "experiments.experiments_proposal_once": "none of theirs has a proposal",
    "credentials.credentials_own_name_once": "all of theirs belong to a project",
    "quotas.quotas_project_limit_once": "the same as theirs: none of them is for each",
    "quotas.quotas_each_limit_once": "none of theirs is for each",
    "quotas.quotas_each_of_a_project": "none of theirs is for each",
    "usage.usage_interval_part_once": "all of theirs are the first part of their launch",
    "volumes.volumes_one_home": "the same as theirs, for each cluster",
    "volumes.volumes_one_shared": "they make homes only",
    "volumes.volumes_name_once": "they make homes only",
    "volumes.volumes_done_lte_asked": "they leave all four numbers alone",
}


def steps():
    """Every migration of ours in an order in which it can be applied, with what is wrong."""
    loader = MigrationLoader(None)
    ours = {config.label for config in apps.get_app_configs() if is_ours(config)}
    walk, done = Walk(), set()
    for leaf in sorted(loader.graph.leaf_nodes()):
        for key in loader.graph.forwards_plan(leaf):
            if key not in done:
                done.add(key)
                faults = walk.faults(loader.graph.nodes[key])
                yield from ((key, *fault) for fault in faults if key[0] in ours)


def is_ours(config):
    return config.name.partition(".")[0] not in {"django", "allauth", "rest_framework"}


def test_e14_no_migration_breaks_the_version_before_it():
    known = OLDER_THAN_THE_PROMISE | MENDED | set(KEPT_BY_OLDER_VERSIONS)
    broken = [(key, what, why) for key, what, why in steps()]
    assert {key for key, _what, _why in broken} >= WITH_A_STOP
    found = {what: (key, why) for key, what, why in broken if key not in WITH_A_STOP}
    assert {what: said for what, said in found.items() if what not in known} == {}
    assert known <= set(found), "an exception that nothing needs any more"


@pytest.mark.parametrize("column", sorted(MENDED))
def test_e14_what_was_added_without_a_default_in_the_database_has_one_now(column):
    app, model, name = column.split(".")
    field = apps.get_model(app, model)._meta.get_field(name)
    assert field.db_default is not models.NOT_PROVIDED


# --- The rules themselves --------------------------------------------------------------------------


def said_of(*operations):
    """What is wrong with a migration after one that made a table and was released."""
    walk = Walk()
    first = migrations.Migration("one", "app")
    first.operations = [
        migrations.CreateModel(
            "Row",
            [
                ("id", models.BigAutoField(primary_key=True)),
                ("name", models.CharField(max_length=40)),
                ("note", models.CharField(max_length=40, null=True)),
                ("word", models.CharField(max_length=40, db_default="")),
            ],
        )
    ]
    assert walk.faults(first) == []
    second = migrations.Migration("two", "app")
    second.operations = list(operations)
    return [what for what, _why in walk.faults(second)]


def state_only(operation):
    return migrations.SeparateDatabaseAndState(state_operations=[operation])


def in_database_only(operation):
    return migrations.SeparateDatabaseAndState(database_operations=[operation])


LONGER = models.CharField(max_length=80)
HARMLESS = {
    "a column that may be NULL": migrations.AddField("row", "new", models.IntegerField(null=True)),
    "a column with a default in the database": migrations.AddField(
        "row", "new", models.IntegerField(default=0, db_default=0)
    ),
    "a wider column": migrations.AlterField("row", "name", LONGER),
    "a column that may be NULL from now on": migrations.AlterField(
        "row", "name", models.CharField(max_length=40, null=True)
    ),
    "a column with a default that the code forgets": state_only(
        migrations.RemoveField("row", "word")
    ),
    "a table that the code forgets": state_only(migrations.DeleteModel("Row")),
    "an index": migrations.AddIndex("row", models.Index(fields=["name"], name="row_name")),
    "a statement that takes nothing away": migrations.RunSQL("CREATE SEQUENCE one"),
}
HARMFUL = {
    "a column that wants a value": migrations.AddField(
        "row", "new", models.IntegerField(default=0)
    ),
    "a key that wants a value": migrations.AddField(
        "row", "new", models.ForeignKey("app.Row", models.CASCADE)
    ),
    "a removed column": migrations.RemoveField("row", "note"),
    "a renamed column": migrations.RenameField("row", "note", "notes"),
    "a removed table": migrations.DeleteModel("Row"),
    "a renamed table": migrations.RenameModel("Row", "Line"),
    "a table of another name": migrations.AlterModelTable("row", "lines"),
    "a column that wants a value and that the code forgets": state_only(
        migrations.RemoveField("row", "name")
    ),
    "the second step of a removal, which wants naming": in_database_only(
        migrations.RemoveField("row", "note")
    ),
    "a column that may not be NULL any more": migrations.AlterField(
        "row", "note", models.CharField(max_length=40)
    ),
    "a narrower column": migrations.AlterField("row", "name", models.CharField(max_length=20)),
    "another kind of column": migrations.AlterField("row", "name", models.IntegerField()),
    "values that may not be there twice": migrations.AlterField(
        "row", "name", models.CharField(max_length=40, unique=True)
    ),
    "a default that goes": migrations.AlterField("row", "word", models.CharField(max_length=40)),
    "a rule for rows": migrations.AddConstraint(
        "row", models.UniqueConstraint(fields=["name"], name="row_once")
    ),
    "a statement that takes away": migrations.RunSQL("ALTER TABLE app_row DROP COLUMN note"),
}


@pytest.mark.parametrize("operation", HARMLESS.values(), ids=HARMLESS)
def test_what_only_adds_is_let_through(operation):
    assert said_of(operation) == []


@pytest.mark.parametrize("operation", HARMFUL.values(), ids=HARMFUL)
def test_what_the_version_before_could_not_live_with_is_found(operation):
    assert len(said_of(operation)) == 1


def test_a_table_that_is_new_may_be_finished_in_the_same_migration():
    made = migrations.CreateModel("Leaf", [("id", models.BigAutoField(primary_key=True))])
    grown = migrations.AddField("leaf", "row", models.ForeignKey("app.Row", models.CASCADE))
    assert said_of(made, grown) == []
