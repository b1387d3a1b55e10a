"""Keys for ssh and for git over ssh: one file of settings that names them by host.

OpenSSH puts variables into paths itself (since 8.4), so the file need not know where it lies.
"""

from __future__ import annotations

from collections.abc import Sequence

from credentials.embedding.items import FOLDER, FOLDER_VARIABLE, Item, one_line
from credentials.kinds.ssh import PORT, known_host, split_host

CONFIG, KNOWN = "ssh-config", "ssh-known-hosts"


def env(items: Sequence[Item]) -> dict[str, str]:
    if not items:
        return {}
    command = f'ssh -F "{FOLDER}/{CONFIG}"'
    return {
        "BERTH_SSH_CONFIG": f"{FOLDER}/{CONFIG}",
        "GIT_SSH_COMMAND": command,
        "RSYNC_RSH": command,
    }


def files(items: Sequence[Item]) -> dict[str, str]:
    if not items:
        return {}
    found = {_file(item): item.secret["private_key"] for item in items}
    found[KNOWN] = "".join(_known(item) for item in items)
    found[CONFIG] = "\n".join([*map(_block, items), *_everywhere(items)]) + "\n"
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
    lines = [f"Host {one_line(host)}", f"    IdentityFile {_path(_file(item))}"]
    if item.public.get("user"):
        lines.append(f"    User {one_line(item.public['user'])}")
    if port != PORT:
        lines.append(f"    Port {port}")
    if item.public.get("known_hosts"):
        lines.append(f"    UserKnownHostsFile {_path(KNOWN)}")
        lines.append("    GlobalKnownHostsFile /dev/null")
        lines.append("    StrictHostKeyChecking yes")
    return "\n".join(lines)


def _everywhere(items: Sequence[Item]) -> list[str]:
    keys = [item for item in items if not item.public.get("host")]
    lines = [f"    IdentityFile {_path(_file(item))}" for item in keys]
    return ["Host *", *lines, "    IdentitiesOnly yes"]


def _path(name: str) -> str:
    return f'"${{{FOLDER_VARIABLE}}}/{name}"'


def _file(item: Item) -> str:
    return f"ssh-key-{item.alias}"
