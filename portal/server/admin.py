"""What an administrator does on the machine itself, without signing in."""

import json
import os
import secrets
import sys
from datetime import UTC, datetime
from typing import Any

from portal.server.copies import belong
from portal.server.paths import Paths, Refusal, private_umask, running, write_private
from portal.server.preflight import setup


def reset_password(name: str) -> int:
    """Prints a new password once, and ends every session of that person."""
    private_umask()
    setup()
    from django.db import DatabaseError

    from accounts.models import User
    from accounts.services.people import password_reset_by_operator

    try:
        user = User.objects.filter(username=name).first()
        if user is None:
            message = f"There is no user {name!r}."
            raise Refusal(message, code=4)
        password = password_reset_by_operator(who=None, user=user)
    except DatabaseError as error:
        message = f"The database can't be used: {error}. Has Berth been started here once?"
        raise Refusal(message) from error
    print(f"New password of {name}, shown this once: {password}")
    if not user.is_active:
        print(f"{name} is disabled and can't sign in until an operator enables the account.")
    sys.stdout.flush()
    return 0


def orphans(*, collect: bool, is_sure: bool) -> int:
    """Shows what was seen without a row, and lets Berth remove what is its own of it."""
    private_umask()
    setup()
    from django.db import DatabaseError

    from portal.server.backup import who
    from runtime import installation
    from runtime.models import Installation

    try:
        own = Installation.objects.first()
    except DatabaseError as error:
        message = f"The database can't be used: {error}. Has Berth been started here once?"
        raise Refusal(message) from error
    if own is None:
        message = "The database was not set up yet."
        raise Refusal(message)
    for one in own.unknown:
        whose = {"own": "made by this installation", "": "without a mark: left"}
        said = whose.get(one["whose"], f"made by installation {one['whose']}: left")
        print(f"{one['cluster']}  {one['kind'] or 'workload'}  {one['uid']}  {one['seen']}  {said}")
    if not own.held_why:
        print("Nothing is held: what is this installation's and has no row is removed by itself.")
        return 0
    print(
        f"Held since {own.held_since:%Y-%m-%d %H:%M} UTC ({own.held_why}): nothing is removed for"
        " having no row. The worker writes down each minute what it sees without one."
    )
    if not collect:
        print("`berth orphans --collect` lets it be removed; as it is, it goes on.")
        return 0
    if not is_sure:
        count = sum(one["whose"] == "own" for one in own.unknown)
        message = (
            f"This ends {count} of the above within minutes, with what they have not saved."
            " `berth orphans --collect --yes` does it."
        )
        raise Refusal(message)
    installation.release(by=who())
    print("Released: what is this installation's and has no row is removed within minutes.")
    return 0


KEY = "BERTH_SECRET_KEY"
LEAVES = """Berth goes on with what is here, and makes anew what is missing:

  secrets    {secrets}
             What lost keys sealed stays closed: stored credentials, kubeconfigs of clusters,
             second factors. Everybody signs in again.
  database   as it is. Where it is missing or empty, a new one with a new administrator.
  the rest   Volumes, homes and what runs stay as they are. Work that the database does not know
             is left, also on clusters: nobody ends it but you.

A backup is better: `berth restore FILE`."""


def anew(*, is_sure: bool) -> int:
    private_umask()
    places = Paths.from_environment()
    if running(places):
        message = "Berth runs; end it first with `berth down`."
        raise Refusal(message)
    there = has_key(places)
    if not is_sure:
        words = str(places.secrets) if there else f"new ones ({places.secrets} has none)"
        print(LEAVES.format(secrets=words))
        message = "Nothing was changed. `berth anew --yes` does it."
        raise Refusal(message)
    places.prepare()
    if not there and places.secrets.exists():  # kept: somebody may yet read something in it
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        places.secrets.rename(places.secrets.with_name(f"secrets-unreadable-{stamp}.json"))
    places.ensure_secrets()  # before the settings are read
    from portal.server.preflight import prepare_database, setup

    setup()
    prepare_database(anew=True)
    print(f"{places.var} is one installation again. Start Berth.")
    return 0


def has_key(places: Paths) -> bool:
    if {KEY, f"{KEY}_FILE"} & os.environ.keys():
        return True
    try:
        return bool(json.loads(places.secrets.read_text()).get(KEY))
    except (OSError, ValueError, AttributeError):
        return False


FALLBACKS = "BERTH_SECRET_KEY_FALLBACKS"
SEALS = "BERTH_CREDENTIAL_KEYS"
FALLBACKS_KEPT = 2


def rotate() -> int:
    private_umask()
    places = Paths.from_environment()
    if running(places):
        message = "Berth runs; end it first with `berth down`, so that nothing uses the old key."
        raise Refusal(message)
    for name in (KEY, FALLBACKS, SEALS):
        for spelled in (name, f"{name}_FILE"):
            if spelled in os.environ:
                message = (
                    f"{spelled} is set in the environment, so the key is changed there, not here."
                )
                raise Refusal(message)
    known = secrets_of(places)
    if "," in known[SEALS]:
        print("An earlier change of keys was cut; it is finished now, with the key it made.")
    else:
        replace_key(places, known)
    setup()
    prove_again()
    count = seal_again()
    stored = seal_credentials_again(places)
    print(f"The secret key is a new one; {count} sealed secrets were sealed again with it.")
    print(f"Stored credentials and variables have a new key too; {stored} were sealed again.")
    print("What the old key signed goes on. Backups made before need their own secrets file.")
    return 0


def prove_again() -> None:
    """The database tells its secrets from others' by the newest keys; an older one does not yet."""
    from django.db import connection

    from portal.server.installation import proofs
    from runtime.models import Installation

    if "runtime_installation" in connection.introspection.table_names():
        Installation.objects.update(proofs=proofs())


def secrets_of(places: Paths) -> dict[str, str]:
    if not places.secrets.exists():
        message = f"There is no {places.secrets}; has Berth been started here once?"
        raise Refusal(message)
    places.ensure_secrets()
    known: dict[str, str] = json.loads(places.secrets.read_text())
    return known


def replace_key(places: Paths, known: dict[str, str]) -> None:
    old = [known[KEY], *filter(None, known.get(FALLBACKS, "").split(","))]
    known[KEY] = secrets.token_urlsafe(48)
    known[FALLBACKS] = ",".join(old[:FALLBACKS_KEPT])
    known[SEALS] = f"{secrets.token_urlsafe(48)},{known[SEALS]}"
    write_secrets(places, known)


def write_secrets(places: Paths, known: dict[str, str]) -> None:
    owner = places.secrets.stat()
    write_private(places.secrets, json.dumps(known, indent=2) + "\n")
    belong(places.secrets, owner)


def seal_credentials_again(places: Paths) -> int:
    """In small steps; the old keys are forgotten only when nothing rests on them."""
    from credentials import rekey

    done, lost = rekey.again()
    known = secrets_of(places)
    if lost:
        print(f"{lost} stored secrets can't be opened by any key: store them again.")
        print("The old keys are kept until these are gone.")
    else:
        known[SEALS] = known[SEALS].partition(",")[0]
        write_secrets(places, known)
    return done


def seal_again() -> int:
    """Every sealed secret of a second factor; safe to do twice."""
    from allauth.mfa.models import Authenticator
    from django.db import transaction

    count = 0
    with transaction.atomic():
        for factor in Authenticator.objects.select_for_update():
            fresh, changed = again(factor.data)
            if changed:
                factor.data = fresh
                factor.save(update_fields=["data"])
                count += changed
    return count


def again(value: Any) -> tuple[Any, int]:
    """The same data with each sealed text sealed by the key of now, and how many these were."""
    from accounts.crypto import seal, unseal

    if isinstance(value, str):
        plain = unseal(value)
        return (value, 0) if plain is None else (seal(plain), 1)
    if isinstance(value, list):
        parts = [again(part) for part in value]
        return [part for part, _ in parts], sum(count for _, count in parts)
    if isinstance(value, dict):
        pairs = {name: again(part) for name, part in value.items()}
        return {k: part for k, (part, _) in pairs.items()}, sum(n for _, n in pairs.values())
    return value, 0
