"""``berth up``, ``down``, ``backup`` …: reads the command line and calls one function."""

import argparse
import sys
from collections.abc import Callable, Sequence

from portal.server.paths import Refusal

SERVED = ("web", "worker", "gate", "proxy", "migrate", "check", "health", "secrets")
Verb = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str]) -> int:
    options = parser().parse_args(argv)
    verb: Verb = options.verb
    try:
        return verb(options)
    except Refusal as refusal:
        print(f"berth: {refusal}", file=sys.stderr, flush=True)
        return refusal.code
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="berth", description="Runs Berth on this machine.")
    verbs = top.add_subparsers(required=True, metavar="VERB")

    one = verbs.add_parser("up", help="start the portal and stay in the foreground")
    one.add_argument(
        "--insecure-http",
        action="store_true",
        help="allow an address that other machines reach, without TLS",
    )
    one.set_defaults(verb=_up)

    one = verbs.add_parser("down", help="end the portal; workspaces go on")
    one.add_argument("--workspaces", action="store_true", help="end the workspaces too")
    one.set_defaults(verb=_down)

    one = verbs.add_parser("status", help="say whether the portal runs")
    one.set_defaults(verb=_status)

    one = verbs.add_parser("serve", help="run one process of an installation of several")
    one.add_argument("process", choices=SERVED)
    one.add_argument(
        "--kubernetes",
        metavar="NAME",
        help="secrets: keep them in this Secret; migrate: record the installation there",
    )
    one.add_argument(
        "--anew",
        action="store_true",
        help="migrate: go on with this database, although another one belongs to what is here",
    )
    one.set_defaults(verb=_serve)

    one = verbs.add_parser("backup", help="write the database and the secrets to one file")
    one.add_argument("file")
    one.add_argument("--homes", action="store_true", help="include everybody's files")
    one.set_defaults(verb=_backup)

    one = verbs.add_parser("restore", help="put back what a backup holds; Berth must be down")
    one.add_argument("file")
    one.add_argument("--yes", action="store_true", help="replace existing data without asking")
    one.add_argument(
        "--keep-access",
        action="store_true",
        help="leave API tokens, SSH keys and kubeconfigs of the backup good, with those cut since",
    )
    one.set_defaults(verb=_restore)

    one = verbs.add_parser(
        "restored", help="after the database was restored by other means: do what restore does"
    )
    one.add_argument("made_at", metavar="WHEN", help="of what time the database is")
    one.add_argument("--keep-access", action="store_true", help="as restore has it")
    one.set_defaults(verb=_restored)

    one = verbs.add_parser("anew", help="go on where secrets, database or data are lost")
    one.add_argument("--yes", action="store_true", help="do it")
    one.set_defaults(verb=_anew)

    one = verbs.add_parser("orphans", help="show what runs without a row, while it is held")
    one.add_argument("--collect", action="store_true", help="let Berth remove what is its own")
    one.add_argument("--yes", action="store_true", help="do it")
    one.set_defaults(verb=_orphans)

    _admin(verbs.add_parser("admin", help="repair access"))
    _keys(verbs.add_parser("keys", help="change the secret keys"))
    return top


def _admin(admin: argparse.ArgumentParser) -> None:
    verbs = admin.add_subparsers(required=True, metavar="VERB")
    one = verbs.add_parser("reset-password", help="give a user a new password, printed once")
    one.add_argument("user")
    one.set_defaults(verb=_reset_password)


def _keys(keys: argparse.ArgumentParser) -> None:
    verbs = keys.add_subparsers(required=True, metavar="VERB")
    one = verbs.add_parser("rotate", help="make a new key; what the old one signed goes on")
    one.set_defaults(verb=_rotate)


def _rotate(_: argparse.Namespace) -> int:
    from portal.server.keys import rotate

    return rotate()


def _up(options: argparse.Namespace) -> int:
    from portal.server.up import up

    return up(insecure_http=options.insecure_http)


def _down(options: argparse.Namespace) -> int:
    from portal.server.down import down

    return down(workspaces=options.workspaces)


def _status(_: argparse.Namespace) -> int:
    from portal.server.down import status

    return status()


def _serve(options: argparse.Namespace) -> int:
    if options.process == "secrets":
        from portal.server import generate

        name = options.kubernetes
        return generate.into_secret(name) if name else generate.print_lines()
    from portal.server.serve import serve

    return serve(options.process, secret=options.kubernetes or "", anew=options.anew)


def _backup(options: argparse.Namespace) -> int:
    from portal.server.backup import backup

    return backup(options.file, homes=options.homes)


def _restore(options: argparse.Namespace) -> int:
    from portal.server.backup import restore

    return restore(options.file, replace=options.yes, keep_access=options.keep_access)


def _restored(options: argparse.Namespace) -> int:
    from portal.server.preflight import setup
    from portal.server.restored import restored

    setup()
    return restored(made_at=options.made_at, keep_access=options.keep_access)


def _anew(options: argparse.Namespace) -> int:
    from portal.server.anew import anew

    return anew(is_sure=options.yes)


def _orphans(options: argparse.Namespace) -> int:
    from portal.server.admin import orphans

    return orphans(collect=options.collect, is_sure=options.yes)


def _reset_password(options: argparse.Namespace) -> int:
    from portal.server.admin import reset_password

    return reset_password(options.user)
