"""``berth up``, ``down``, ``backup`` …: reads the command line and calls one function."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from portal.server.paths import Refusal

SERVED = ("web", "worker", "gate", "gateway", "proxy", "migrate", "check", "health", "secrets")


def main(argv: Sequence[str]) -> int:
    options = vars(parser().parse_args(argv))
    module, _dot, function = options.pop("verb").partition(".")
    try:
        return int(getattr(import_module(f"portal.server.{module}"), function)(**options))
    except Refusal as refusal:
        print(f"berth: {refusal}", file=sys.stderr, flush=True)
        return refusal.code
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    """Return what reads the line; each verb names its function, and options are named like its
    parameters.
    """
    top = argparse.ArgumentParser(prog="berth", description="Runs Berth on this machine.")
    verbs: Any = top.add_subparsers(required=True, metavar="VERB")

    one = verbs.add_parser("up", help="start the portal and stay in the foreground")
    one.add_argument(
        "--insecure-http",
        action="store_true",
        help="allow an address that other machines reach, without TLS",
    )
    one.set_defaults(verb="up.up")

    one = verbs.add_parser("down", help="end the portal; workspaces go on")
    one.add_argument("--workspaces", action="store_true", help="end the workspaces too")
    one.set_defaults(verb="up.down")

    one = verbs.add_parser("status", help="say whether the portal runs")
    one.set_defaults(verb="up.status")

    one = verbs.add_parser("serve", help="run one process of an installation of several")
    one.add_argument("process", choices=SERVED)
    one.add_argument(
        "--kubernetes",
        dest="secret",
        default="",
        metavar="NAME",
        help="secrets: keep them in this Secret; migrate: record the installation there",
    )
    one.add_argument(
        "--anew",
        action="store_true",
        help="migrate: go on with this database, although another one belongs to what is here",
    )
    one.set_defaults(verb="serve.serve")

    one = verbs.add_parser("backup", help="write the database and the secrets to one file")
    one.add_argument("name", metavar="file")
    one.add_argument("--homes", action="store_true", help="include everybody's files")
    one.set_defaults(verb="backup.backup")

    one = verbs.add_parser("restore", help="put back what a backup holds; Berth must be down")
    one.add_argument("name", metavar="file")
    _yes(one, "replace", "replace existing data without asking")
    one.add_argument(
        "--keep-access",
        action="store_true",
        help="leave API tokens, SSH keys and kubeconfigs of the backup good, with those cut since",
    )
    one.set_defaults(verb="backup.restore")

    one = verbs.add_parser(
        "restored", help="after the database was restored by other means: do what restore does"
    )
    one.add_argument("made_at", metavar="WHEN", help="of what time the database is")
    one.add_argument("--keep-access", action="store_true", help="as restore has it")
    one.set_defaults(verb="backup.restored")

    one = verbs.add_parser("anew", help="go on where secrets, database or data are lost")
    _yes(one, "is_sure", "do it")
    one.set_defaults(verb="admin.anew")

    one = verbs.add_parser("orphans", help="show what runs without a row, while it is held")
    one.add_argument("--collect", action="store_true", help="let Berth remove what is its own")
    _yes(one, "is_sure", "do it")
    one.set_defaults(verb="admin.orphans")

    admin = verbs.add_parser("admin", help="repair access")
    one = admin.add_subparsers(required=True, metavar="VERB").add_parser(
        "reset-password", help="give a user a new password, printed once"
    )
    one.add_argument("name", metavar="user")
    one.set_defaults(verb="admin.reset_password")

    keys = verbs.add_parser("keys", help="change the secret keys")
    one = keys.add_subparsers(required=True, metavar="VERB").add_parser(
        "rotate", help="make a new key; what the old one signed goes on"
    )
    one.set_defaults(verb="admin.rotate")
    return top


def _yes(one: argparse.ArgumentParser, meant: str, words: str) -> None:
    one.add_argument("--yes", dest=meant, action="store_true", help=words)
