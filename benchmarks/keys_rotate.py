"""``berth keys rotate`` with very many stored credentials, against sealing alone."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from cryptography.fernet import Fernet, MultiFernet

from benchmarks.lib import Result, sized
from benchmarks.loads_lib import option
from tests.support.portal import ROOT, Portal

# A key pair of S3, as it lies in the database; one call, so that filling costs little.
FILL = """
from accounts.models import User
from common.ids import new_uid
from credentials.choices import CredentialKind
from credentials.models import Credential
from credentials.sealing import seal
owner = User.objects.get(username="admin")
secret = {{"access_key": "AK" + "X" * 18, "secret_key": "s" * 40}}
rows = []
for number in range({count}):
    uid = new_uid()
    sealed, name = seal(uid, secret)
    rows.append(Credential(uid=uid, owner=owner, kind=CredentialKind.GENERIC,
        name=f"s{{number}}", sealed=sealed, sealed_with=name))
Credential.objects.bulk_create(rows, batch_size=2000)
answer = [Credential.objects.count(), sealed]
"""
SECRETS = """
from portal.server.paths import Paths
Paths.from_environment().ensure_secrets()
"""
LOOK = """
from credentials import rekey
from credentials.models import Credential
from credentials.sealing import unseal
rows = list(Credential.objects.order_by("?")[:200])
answer = [rekey.left(), all(unseal(row.uid, row.sealed)["secret_key"] for row in rows)]
"""


def run() -> list[Result]:
    count, rounds = option("KEYS", sized(100_000, 200)), option("KEY_ROUNDS", sized(3, 1))
    portal = Portal()
    ours, peer = [], []
    try:
        portal.manage("migrate", "--noinput")
        portal.manage("berth_bootstrap")
        python(portal, "-c", SECRETS)
        there, sealed = with_keys(portal, FILL.format(count=count))
        for _ in range(rounds):
            ours.append(rotate(portal))
            peer.append(bare(len(sealed), there))
            left, good = with_keys(portal, LOOK)
            if left or not good:
                raise RuntimeError(f"{left} of {there} are still under the old key, or can't open")
    finally:
        portal.close()
    return [
        Result(
            f"berth keys rotate, {count:,} secrets",
            "s",
            ours,
            goal=60,
            floor=60,
            note=f"sealing alone in the same run: {min(peer):.3g} s",
        )
    ]


def rotate(portal: Portal) -> float:
    begin = time.perf_counter()
    python(portal, "-m", "portal.server", "keys", "rotate")
    return time.perf_counter() - begin


def python(portal: Portal, *words: str) -> None:
    command = [sys.executable, *words]
    subprocess.run(command, cwd=ROOT, env=portal.env, check=True, stdout=subprocess.DEVNULL)


def with_keys(portal: Portal, code: str) -> Any:
    """Run ``code`` with the keys of now; to be changed they must not be in the environment."""
    saved = portal.env
    known = json.loads((portal.var / "secrets.json").read_text())
    portal.env = {**saved, **{name: str(value) for name, value in known.items()}}
    try:
        return portal.shell(code)
    finally:
        portal.env = saved


def bare(length: int, count: int) -> float:
    """Opening and sealing as many texts of that length, nothing read or written."""
    old, new = Fernet(Fernet.generate_key()), Fernet(Fernet.generate_key())
    box = MultiFernet([new, old])
    text = old.encrypt(b"x" * max(1, length * 3 // 4 - 73))
    begin = time.perf_counter()
    for _ in range(count):
        box.rotate(text)
    return time.perf_counter() - begin
