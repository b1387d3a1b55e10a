"""``berth admin reset-password <username>``: for those whom no mail reaches."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts.models import User
from accounts.services.people import password_reset_by_operator, user_enable


class Command(BaseCommand):
    help = "Set a generated password, end all sessions of the person, print the password once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--enable", action="store_true", help="also let the person in again")
        parser.add_argument(
            "--remove-second-factor", action="store_true", help="also forget second factors"
        )

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002
        from allauth.mfa.models import Authenticator

        user = User.objects.filter(username__iexact=options["username"]).first()
        if user is None:
            message = f"There is nobody with the username {options['username'][:64]!r}."
            raise CommandError(message)
        password = password_reset_by_operator(who=None, user=user)
        if options["enable"]:
            user_enable(who=None, user=user)
        if options["remove_second_factor"]:
            Authenticator.objects.filter(user=user).delete()
        self.stdout.write(f"New password of {user.username}: {password}")
