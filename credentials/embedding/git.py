"""How git signs in over https: a helper for each host that only ever answers.

The usual store would write: it forgets a token as soon as one server refuses it. This one reads
a file and says what is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from credentials.embedding.items import FOLDER, Item, one_line


def env(items: Sequence[Item]) -> dict[str, str]:
    """Settings of git by environment; an address with a user name finds that user's token."""
    entries: list[tuple[str, str]] = []
    for item in items:
        user = quote(str(item.public["username"]), safe="")
        entries.append((f"credential.https://{user}@{item.public['host']}.helper", _helper(item)))
    first: dict[str, Item] = {}
    for item in items:
        first.setdefault(str(item.public["host"]), item)
    entries += [(f"credential.https://{host}.helper", _helper(i)) for host, i in first.items()]
    found = {"GIT_CONFIG_COUNT": str(len(entries))} if entries else {}
    for number, (name, value) in enumerate(entries):
        found[f"GIT_CONFIG_KEY_{number}"] = one_line(name)
        found[f"GIT_CONFIG_VALUE_{number}"] = value
    return found


def files(items: Sequence[Item]) -> dict[str, str]:
    return {_file(item): _answer(item) for item in items}


def _answer(item: Item) -> str:
    user, token = one_line(item.public["username"]), one_line(item.secret["token"])
    return f"username={user}\npassword={token}\n"


def _helper(item: Item) -> str:
    return f'!f() {{ test "$1" = get && cat "{FOLDER}/{_file(item)}"; }}; f'


def _file(item: Item) -> str:
    return f"git-{item.alias}"
