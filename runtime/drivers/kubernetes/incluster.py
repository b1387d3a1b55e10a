"""The identity of the pod that this process runs in: the operator's doing, never a user's."""

from __future__ import annotations

import os
from pathlib import Path

from runtime.drivers.kubernetes.access import KubeAccess
from runtime.protocol import Unreachable

MOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def access(mount: Path | None = None) -> KubeAccess | None:
    """Return the access of the mounted service account; None where none is mounted (``web``)."""
    mount = mount or MOUNT
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = os.environ.get("KUBERNETES_SERVICE_PORT_HTTPS", "443")
    token = mount / "token"
    if not host or not token.is_file():
        return None
    try:
        authority = (mount / "ca.crt").read_text("ascii")
    except OSError as error:
        message = "The cluster's certificate authority beside the pod's token cannot be read."
        raise Unreachable(message) from error
    name = f"[{host}]" if ":" in host else host
    return KubeAccess(server=f"https://{name}:{port}", ca_pem=authority, token_file=str(token))
