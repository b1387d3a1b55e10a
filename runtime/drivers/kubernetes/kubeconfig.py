"""Reading a pasted kubeconfig by an allow-list of our own (hostile case C1).

Nothing in it is executed, opened or fetched: exactly one cluster, one user and one context,
with everything inline. What is not on the list is refused by name.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import yaml
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from django.utils.translation import gettext as _

from runtime.drivers.kubernetes.access import KubeAccess
from runtime.protocol import InvalidSpec
from runtime.reasons import Reason

SIZE_MAX = 64 * 1024
_EVENTS_MAX = 2000
_DEPTH_MAX = 12
_TOKEN = re.compile(r"\A[\x21-\x7e]{1,16384}\Z")
_HOST = re.compile(r"\A[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?\Z")
_PATH = re.compile(r"\A(/[A-Za-z0-9._~-]+)*/?\Z")

_TOP = {"apiVersion", "kind", "clusters", "users", "contexts", "current-context"}
_CLUSTER = {"server", "certificate-authority-data", "tls-server-name"}
_USER = {"token", "client-certificate-data", "client-key-data"}
_CONTEXT = {"cluster", "user", "namespace"}
_HARMLESS = {"preferences", "extensions"}  # said by some tools, used by nothing


class KubeconfigError(InvalidSpec):
    """The text says what is wrong and is for the person who pasted it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason=Reason.INVALID_SPEC)


def parse(text: str) -> KubeAccess:
    """Return the one way in that ``text`` describes, or raise KubeconfigError."""
    if len(text.encode("utf-8", "surrogatepass")) > SIZE_MAX:
        raise KubeconfigError(_("A kubeconfig larger than 64 KiB is not taken."))
    try:
        _check_events(text)
        # A subclass of SafeLoader after tags, anchors and size were refused.
        document = yaml.load(text, Loader=_Loader)  # noqa: S506
    except (yaml.YAMLError, RecursionError, UnicodeError, ValueError) as error:
        raise KubeconfigError(_("The text is not YAML.")) from error
    if not isinstance(document, dict):
        raise KubeconfigError(_("This is not a kubeconfig (kind: Config, apiVersion: v1)."))
    _only(document, _TOP | _HARMLESS, _("the file"))
    if document.get("kind", "Config") != "Config" or document.get("apiVersion", "v1") != "v1":
        raise KubeconfigError(_("This is not a kubeconfig (kind: Config, apiVersion: v1)."))
    cluster_name, cluster = _one(document, "clusters", "cluster")
    user_name, user = _one(document, "users", "user")
    context_name, context = _one(document, "contexts", "context")
    _only(context, _CONTEXT | _HARMLESS, _("the context"))
    if (context.get("cluster"), context.get("user")) != (cluster_name, user_name):
        raise KubeconfigError(_("The context names a cluster or user that is not in the file."))
    if document.get("current-context", context_name) not in ("", context_name):  # or a list
        raise KubeconfigError(_("The current context is not in the file."))
    return _access(cluster, user)


def _access(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> KubeAccess:
    if cluster.get("insecure-skip-tls-verify") is False:
        cluster = {k: v for k, v in cluster.items() if k != "insecure-skip-tls-verify"}
    _only(cluster, _CLUSTER | _HARMLESS, _("the cluster"))
    _only(user, _USER | _HARMLESS, _("the user"))
    token = _text(user, "token")
    if token and not _TOKEN.match(token):
        raise KubeconfigError(_("The token has characters that no token has."))
    cert, key = _pem(user, "client-certificate-data"), _pem(user, "client-key-data")
    if bool(cert) != bool(key):
        raise KubeconfigError(_("A client certificate and its key belong together."))
    if not token and not cert:
        raise KubeconfigError(_("The user has neither a token nor a client certificate inside."))
    if cert:
        try:
            ours = x509.load_pem_x509_certificate(cert.encode()).public_key()
            theirs = load_pem_private_key(key.encode(), password=None).public_key()
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise KubeconfigError(_("The client certificate or its key cannot be read.")) from error
        shape = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        if ours.public_bytes(*shape) != theirs.public_bytes(*shape):
            raise KubeconfigError(_("The client key does not belong to the certificate."))
    server = _server(_text(cluster, "server"))
    pem = _pem(cluster, "certificate-authority-data")
    try:
        found = x509.load_pem_x509_certificates(pem.encode())
    except ValueError as error:
        raise KubeconfigError(_("The cluster's certificate authority is missing.")) from error
    name = _text(cluster, "tls-server-name")
    if name and not _is_host(name):
        raise KubeconfigError(_("“%(name)s” is not text.") % {"name": "tls-server-name"})
    return KubeAccess(
        server=server,
        ca_pem="".join(c.public_bytes(Encoding.PEM).decode() for c in found),
        token=token,
        client_cert_pem=cert,
        client_key_pem=key,
        tls_server_name=name,
    )


# --- the text ---------------------------------------------------------------------------------
class _Loader(yaml.SafeLoader):
    """Refuses a name that stands twice: two readers could take two different ones."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:  # noqa: FBT001, FBT002
        names = [self.construct_object(key, deep=True) for key, _value in node.value]
        if any(not isinstance(name, str) for name in names) or len(set(names)) != len(names):
            raise KubeconfigError(_("A name stands twice in the file, or is not text."))
        return super().construct_mapping(node, deep=deep)


def _check_events(text: str) -> None:
    depth = documents = 0
    for number, event in enumerate(yaml.parse(text, Loader=yaml.SafeLoader)):
        documents += isinstance(event, yaml.DocumentStartEvent)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise KubeconfigError(_("Anchors and aliases (& and *) are not taken."))
        if getattr(event, "tag", None):
            raise KubeconfigError(_("Tags (!…) are not taken."))
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if number > _EVENTS_MAX or depth > _DEPTH_MAX or documents > 1:
            raise KubeconfigError(_("The file holds more than one cluster's kubeconfig can."))


def _only(found: Mapping[str, Any], allowed: set[str], where: str) -> None:
    if odd := sorted(set(found) - allowed):
        raise KubeconfigError(
            _("“%(name)s” in %(where)s is not taken: everything must be inside the file.")
            % {"name": odd[0][:60], "where": where}
        )


def _one(document: Mapping[str, Any], plural: str, single: str) -> tuple[str, Mapping[str, Any]]:
    entries = document.get(plural)
    if not isinstance(entries, list) or len(entries) != 1 or not isinstance(entries[0], dict):
        raise KubeconfigError(
            _("Exactly one entry is needed in “%(name)s”.") % {"name": plural}
            + " "
            + _("“kubectl config view --minify --flatten --raw” writes such a file.")
        )
    _only(entries[0], {"name", single}, plural)
    name, found = entries[0].get("name"), entries[0].get(single)
    if not isinstance(name, str) or not isinstance(found, dict):
        raise KubeconfigError(_("Exactly one entry is needed in “%(name)s”.") % {"name": plural})
    return name, found


# --- the values -------------------------------------------------------------------------------
def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name, "")
    if not isinstance(value, str):
        raise KubeconfigError(_("“%(name)s” is not text.") % {"name": name})
    return value


def _server(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise KubeconfigError(_("The server's address is not an https address.")) from error
    host = parts.hostname or ""
    odd = parts.username or parts.password or parts.query or parts.fragment or "\\" in url
    if parts.scheme != "https" or odd or not _is_host(host) or not _PATH.match(parts.path):
        raise KubeconfigError(_("The server's address is not an https address."))
    shown = f"[{host}]" if ":" in host else host
    return f"https://{shown}:{port or 443}{parts.path.rstrip('/')}"


def _is_host(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return bool(_HOST.match(host))
    return True


def _pem(found: Mapping[str, Any], name: str) -> str:
    value = _text(found, name)
    try:
        return base64.b64decode("".join(value.split()), validate=True).decode("ascii")
    except (binascii.Error, UnicodeError) as error:
        raise KubeconfigError(_("“%(name)s” is not base64.") % {"name": name}) from error
