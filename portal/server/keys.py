"""``berth keys rotate``: another secret key; what the old one signed or sealed stays good.

The old key becomes a fallback: sessions and running workspaces that it signed go on.  What is
sealed in the database is sealed again at once, so that nothing of value rests on an old key.
Stored credentials and variables of work have keys of their own: the old one is forgotten when the
last secret is sealed again.  Cut anywhere, the next call goes on where this one was.
"""

import json
import os
import secrets
from typing import Any

from portal.server.database_files import belong
from portal.server.paths import Paths, Refusal, private_umask, running, write_private
from portal.server.preflight import setup

KEY, FALLBACKS = "BERTH_SECRET_KEY", "BERTH_SECRET_KEY_FALLBACKS"
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
