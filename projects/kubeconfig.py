"""The file that kubectl reads. Pure text; secrets only in the variant that holds a token."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import yaml

# kubectl prints it where it finds no berth: as the pages say it
HINT = "Install Berth's command line (pip install ./cli in its checkout), then run: berth login {}"


@dataclass(frozen=True)
class Target:
    """What a file points at."""

    server: str
    ca: str  # PEM
    cluster: str
    project: str
    namespace: str
    username: str
    server_name: str = ""  # that its certificate proves, where that is not the server's own


def with_plugin(target: Target, *, portal: str, grant: str) -> str:
    """Return a file without a secret: the berth command signs in with what it holds."""
    args = ["--server", portal, "kube-credential", "--cluster", target.cluster]
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "berth",
            "args": [*args, "--project", target.project, "--grant", grant],
            "interactiveMode": "Never",
            "provideClusterInfo": False,
            "installHint": HINT.format(portal),
        }
    }
    return _file(target, user)


def with_token(target: Target, *, token: str) -> str:
    return _file(target, {"token": token})


def _file(target: Target, user: dict[str, Any]) -> str:
    context = f"{target.project}@{target.cluster}"
    who = f"{target.username}@{target.cluster}/{target.project}"
    authority = base64.b64encode(target.ca.encode()).decode()
    name = {"tls-server-name": target.server_name} if target.server_name else {}
    said = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": target.cluster,
                "cluster": {
                    "server": target.server,
                    "certificate-authority-data": authority,
                    **name,
                },
            }
        ],
        "contexts": [
            {
                "name": context,
                "context": {
                    "cluster": target.cluster,
                    "namespace": target.namespace,
                    "user": who,
                },
            }
        ],
        "current-context": context,
        "users": [{"name": who, "user": user}],
    }
    return yaml.safe_dump(said, sort_keys=False)
