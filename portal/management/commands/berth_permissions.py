"""Prints docs/permissions.md from the permission table; a test compares the two."""

from typing import Any

from django.core.management.base import BaseCommand
from django.utils import translation

from projects import selectors
from projects.choices import Role

HEAD = """# What each role may do

Made by `manage.py berth_permissions` from `projects/access.py`; do not edit by hand.

A stranger to a project gets 404 for everything in it, the same as for what does not exist. A
member without the right gets 403 with the reason. A token can only narrow what its owner may.
Nobody, operators included, opens a workspace that is not his own and was not shared with him.
"""


class Command(BaseCommand):
    help = "Print the permission table as Markdown."

    def handle(self, *args: Any, **options: Any) -> None:
        del args, options
        self.stdout.write(markdown(), ending="")


def markdown() -> str:
    with translation.override("en"):
        columns = [*(str(r.label) for r in Role), "Operator", "Auditor"]
        lines = [
            HEAD,
            f"| right | meaning | {' | '.join(columns)} |",
            f"|---|---|{'|'.join(':-:' for _c in columns)}|",
        ]
        for row in selectors.permission_table():
            marks = ["yes" if has else "" for has in (*row.roles, row.operator, row.auditor)]
            lines.append(f"| `{row.permission}` | {row.text} | {' | '.join(marks)} |")
    return "\n".join(lines) + "\n"
