"""Keeps the audit log append-only in the database itself.

SQLite: triggers that abort. PostgreSQL: triggers that raise, and the rights are revoked from
the role that the portal uses. Installed by a migration; tests that empty tables switch it off
(BERTH_AUDIT_GUARD) and try it explicitly.
"""

from django.db.backends.base.base import BaseDatabaseWrapper

TABLES = ("events_event", "events_seal")
_MESSAGE = "the audit log is append-only"


def install(connection: BaseDatabaseWrapper) -> None:
    run(connection, _sqlite() if connection.vendor == "sqlite" else _postgresql())


def remove(connection: BaseDatabaseWrapper) -> None:
    if connection.vendor == "sqlite":
        names = [f"{t}_no_{verb}" for t in TABLES for verb in ("update", "delete")]
        run(connection, [f"DROP TRIGGER IF EXISTS {name}" for name in names])
        return
    statements: list[str] = []
    for t in TABLES:
        statements += [
            f"DROP TRIGGER IF EXISTS {t}_append_only ON {t}",
            f"DROP TRIGGER IF EXISTS {t}_no_truncate ON {t}",
            f"GRANT UPDATE, DELETE, TRUNCATE ON {t} TO CURRENT_USER",
        ]
    run(connection, [*statements, "DROP FUNCTION IF EXISTS events_refuse_change()"])


def run(connection: BaseDatabaseWrapper, statements: list[str]) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _sqlite() -> list[str]:
    return [
        f"CREATE TRIGGER IF NOT EXISTS {t}_no_{verb.lower()} BEFORE {verb} ON {t} "
        f"BEGIN SELECT RAISE(ABORT, '{_MESSAGE}'); END"
        for t in TABLES
        for verb in ("UPDATE", "DELETE")
    ]


def _postgresql() -> list[str]:
    function = (
        "CREATE OR REPLACE FUNCTION events_refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_MESSAGE}'; END $$"
    )
    statements = [function]
    for t in TABLES:
        row = f"CREATE TRIGGER {t}_append_only BEFORE UPDATE OR DELETE ON {t} FOR EACH ROW"
        whole = f"CREATE TRIGGER {t}_no_truncate BEFORE TRUNCATE ON {t} FOR EACH STATEMENT"
        statements += [
            f"{row} EXECUTE FUNCTION events_refuse_change()",
            f"{whole} EXECUTE FUNCTION events_refuse_change()",
            f"REVOKE UPDATE, DELETE, TRUNCATE ON {t} FROM PUBLIC",
            f"REVOKE UPDATE, DELETE, TRUNCATE ON {t} FROM CURRENT_USER",
        ]
    return statements
