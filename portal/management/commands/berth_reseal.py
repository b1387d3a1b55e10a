"""For installations whose keys come from the environment: put a new key first, then call this."""

from typing import Any

from django.core.management.base import BaseCommand

from credentials import rekey


class Command(BaseCommand):
    help = "Seal every stored credential and variable with the first key of BERTH_CREDENTIAL_KEYS."

    def handle(self, *_args: Any, **_options: Any) -> None:
        done, lost = rekey.again()
        self.stdout.write(f"{done} secrets were sealed again.")
        if lost:
            self.stdout.write(f"{lost} can't be opened by any key; keep the old ones.")
        else:
            self.stdout.write("The other keys can be removed now.")
