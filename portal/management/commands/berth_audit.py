"""``berth_audit verify`` reads the whole chain; ``berth_audit export`` writes the log."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from common.ui import responses
from events import sealer, selectors
from events.models import Event


class Command(BaseCommand):
    help = "Verify the chain of the audit log, or export the log."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verify = verbs.add_parser("verify", help="compute every link again")
        verify.add_argument("--head", default="", help="a head noted earlier that must be there")
        out = verbs.add_parser("export", help="write the log to standard output")
        out.add_argument("--format", choices=["csv", "jsonl"], default="jsonl")

    def handle(self, *args: Any, **options: Any) -> None:
        del args
        if options["verb"] == "verify":
            self._verify(options["head"])
        else:
            self._export(options["format"])

    def _verify(self, head: str) -> None:
        verdict = sealer.verify_chain()
        for problem in verdict.problems:
            self.stderr.write(problem)
        known = not head or sealer.has_head(head)
        if not known:
            self.stderr.write(f"no link has the hash {head}: the log was cut or replaced")
        self.stdout.write(
            f"{verdict.links} links over {verdict.sealed} events, {verdict.unsealed} not sealed "
            f"yet. Head: {verdict.head}"
        )
        if not verdict.is_whole or not known:
            sys.exit(1)

    def _export(self, form: str) -> None:
        rows = Event.objects.order_by("id")
        if form == "csv":
            for text in responses.csv_lines(selectors.HEAD, selectors.csv_rows(rows)):
                self.stdout.write(text, ending="")
            return
        for line in selectors.json_lines(rows):
            self.stdout.write(line)
