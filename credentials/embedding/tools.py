"""How git and ssh sign in, and how other secrets are given."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from credentials.choices import GivenAs
from credentials.embedding.items import FOLDER, FOLDER_VARIABLE, Item, one_line
from credentials.kinds.git import PORT, known_host, split_host
from credentials.kinds.others import variable_of


def git_env(items: Sequence[Item]) -> dict[str, str]:
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


def git_files(items: Sequence[Item]) -> dict[str, str]:
    return {
        _git_file(item): f"username={one_line(item.public['username'])}\n"
        f"password={one_line(item.secret['token'])}\n"
        for item in items
    }


def _helper(item: Item) -> str:
    return f'!f() {{ test "$1" = get && cat "{FOLDER}/{_git_file(item)}"; }}; f'


def _git_file(item: Item) -> str:
    return f"git-{item.alias}"


# Keys for ssh and for git over ssh: one file of settings that names them by host.
#
# OpenSSH puts variables into paths itself (since 8.4), so the file need not know where it lies.


SSH_CONFIG, SSH_KNOWN = "ssh-config", "ssh-known-hosts"


def ssh_env(items: Sequence[Item]) -> dict[str, str]:
    if not items:
        return {}
    command = f'ssh -F "{FOLDER}/{SSH_CONFIG}"'
    return {
        "BERTH_SSH_CONFIG": f"{FOLDER}/{SSH_CONFIG}",
        "GIT_SSH_COMMAND": command,
        "RSYNC_RSH": command,
    }


def ssh_files(items: Sequence[Item]) -> dict[str, str]:
    if not items:
        return {}
    found = {_key_file(item): item.secret["private_key"] for item in items}
    found[SSH_KNOWN] = "".join(_known(item) for item in items)
    found[SSH_CONFIG] = "\n".join([*map(_block, items), *_everywhere(items)]) + "\n"
    return found


def _known(item: Item) -> str:
    keys = item.public.get("known_hosts") or ()
    host = known_host(str(item.public["host"])) if keys else ""
    return "".join(f"{one_line(host)} {one_line(key)}\n" for key in keys)


def _block(item: Item) -> str:
    """Return what holds for the host of one key; nothing for a key of every host."""
    if not item.public.get("host"):
        return ""
    host, port = split_host(str(item.public["host"]), default_port=PORT)
    lines = [f"Host {one_line(host)}", f"    IdentityFile {_path(_key_file(item))}"]
    if item.public.get("user"):
        lines.append(f"    User {one_line(item.public['user'])}")
    if port != PORT:
        lines.append(f"    Port {port}")
    if item.public.get("known_hosts"):
        lines.append(f"    UserKnownHostsFile {_path(SSH_KNOWN)}")
        lines.append("    GlobalKnownHostsFile /dev/null")
        lines.append("    StrictHostKeyChecking yes")
    return "\n".join(lines)


def _everywhere(items: Sequence[Item]) -> list[str]:
    keys = [item for item in items if not item.public.get("host")]
    lines = [f"    IdentityFile {_path(_key_file(item))}" for item in keys]
    return ["Host *", *lines, "    IdentitiesOnly yes"]


def _path(name: str) -> str:
    return f'"${{{FOLDER_VARIABLE}}}/{name}"'


def _key_file(item: Item) -> str:
    return f"ssh-key-{item.alias}"


def generic_env(items: Sequence[Item]) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in _given_as(items, GivenAs.FILE):
        for name in item.public["names"]:
            found.setdefault(variable_of(name), f"{FOLDER}/{_secret_file(item, name)}")
    return found


def generic_secret_env(items: Sequence[Item]) -> dict[str, str]:
    """Of two with one name the first counts."""
    found: dict[str, str] = {}
    for item in _given_as(items, GivenAs.ENV):
        for name, value in item.secret.items():
            found.setdefault(name, value)
    return found


def generic_files(items: Sequence[Item]) -> dict[str, str]:
    return {
        _secret_file(item, name): value
        for item in _given_as(items, GivenAs.FILE)
        for name, value in item.secret.items()
    }


def _given_as(items: Sequence[Item], how: GivenAs) -> list[Item]:
    return [item for item in items if item.public.get("given_as") == how]


def _secret_file(item: Item, name: str) -> str:
    return f"secret-{item.alias}-{name}"
