"""The cluster's own certificate authority, its certificates and its kubeconfigs."""

import base64
import datetime as dt
import ipaddress
import json
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from devcluster.layout import API_PORT, API_SERVICE, DOMAIN, HOST, NODE, Layout

DAYS = 365
Key = ec.EllipticCurvePrivateKey
LOOPBACK = "127.0.0.1"
# Administrators among the cluster's own programs: they run on this host as root anyway.
PROGRAMS: tuple[str, ...] = ("kwok", "kueue", "kube-router", "metrics-server", "provisioner")
PROGRAMS += ("storage", "training", "kserve")


@dataclass(frozen=True)
class Subject:
    name: str
    groups: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def x509_name(self) -> x509.Name:
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in self.groups]
        return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, self.name)])

    def alternative(self) -> x509.SubjectAlternativeName:
        return x509.SubjectAlternativeName([alternative(host) for host in self.hosts])


def alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


API_NAMES = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
API_NAMES += [f"kubernetes.default.svc.{DOMAIN}", "localhost"]
SERVING = {
    "etcd": Subject("etcd", hosts=("localhost", LOOPBACK)),
    "apiserver": Subject("kube-apiserver", hosts=(*API_NAMES, API_SERVICE, HOST, LOOPBACK)),
    "kubelet-serving": Subject(f"system:node:{NODE}", ("system:nodes",), (NODE, HOST)),
    "webhooks": Subject(
        "webhooks", hosts=("localhost", LOOPBACK, HOST, "kueue-visibility-server.kueue-system.svc")
    ),
    "metrics-serving": Subject(
        "metrics-server", hosts=("metrics-server.kube-system.svc", HOST, LOOPBACK)
    ),
    "katib-webhook": Subject("katib-controller", hosts=("katib-controller.kubeflow.svc",)),
}
MASTERS = ("system:masters",)
CLIENTS = {
    "admin": Subject("berth-cluster-admin", MASTERS),
    "controller-manager": Subject("system:kube-controller-manager"),
    "scheduler": Subject("system:kube-scheduler"),
    "kube-proxy": Subject("system:kube-proxy"),
    "kubelet": Subject(f"system:node:{NODE}", ("system:nodes",)),
    "apiserver-kubelet": Subject("kube-apiserver-kubelet", MASTERS),
    "apiserver-etcd": Subject("kube-apiserver-etcd"),
    "front-proxy": Subject("front-proxy-client"),
    **{name: Subject(f"berth-cluster:{name}", MASTERS) for name in PROGRAMS},
}


def make(layout: Layout) -> None:
    """All that is missing; what is there stays, so that a second ``up`` changes nothing."""
    key, authority = read_authority(layout.pki) or make_authority(layout.pki)
    for name, subject in (*SERVING.items(), *CLIENTS.items()):
        if not (layout.pki / f"{name}.crt").exists():
            make_certificate(layout.pki, name, subject, key, authority)
    if not (layout.pki / "service-accounts.pub").exists():
        signing = ec.generate_private_key(ec.SECP256R1())
        write(layout.pki / "service-accounts.key", key_text(signing))
        write(layout.pki / "service-accounts.pub", public_text(signing))
    for name in ("controller-manager", "scheduler", "kube-proxy", "kubelet", *PROGRAMS):
        write(layout.kubeconfig(name), kubeconfig(layout.pki, name))
    write(layout.admin, kubeconfig(layout.pki, "admin"))


def read_authority(folder: Path) -> tuple[Key, x509.Certificate] | None:
    try:
        key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
        authority = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    except FileNotFoundError:
        return None
    return (key, authority) if isinstance(key, ec.EllipticCurvePrivateKey) else None


def make_authority(folder: Path) -> tuple[Key, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = Subject("berth-cluster-ca")
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        base(subject.x509_name(), key)
        .issuer_name(subject.x509_name())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
    )
    authority = builder.sign(key, hashes.SHA256())
    write(folder / "ca.key", key_text(key))
    write(folder / "ca.crt", certificate_text(authority))
    return key, authority


def make_certificate(
    folder: Path, name: str, subject: Subject, signer: Key, authority: x509.Certificate
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if subject.hosts:
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
    builder = (
        base(subject.x509_name(), key)
        .issuer_name(authority.subject)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
            critical=False,
        )
    )
    if subject.hosts:
        builder = builder.add_extension(subject.alternative(), critical=False)
    write(folder / f"{name}.key", key_text(key))
    write(folder / f"{name}.crt", certificate_text(builder.sign(signer, hashes.SHA256())))


def base(name: x509.Name, key: Key) -> x509.CertificateBuilder:
    begun = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begun)
        .not_valid_after(begun + dt.timedelta(days=DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def kubeconfig(folder: Path, name: str) -> str:
    """JSON is YAML; everything is inline, so that the file can be copied."""

    def inline(file: str) -> str:
        return base64.b64encode((folder / file).read_bytes()).decode()

    cluster = {
        "server": f"https://{HOST}:{API_PORT}",
        "certificate-authority-data": inline("ca.crt"),
    }
    user = {
        "client-certificate-data": inline(f"{name}.crt"),
        "client-key-data": inline(f"{name}.key"),
    }
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "berth-dev", "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": "berth-dev", "context": {"cluster": "berth-dev", "user": name}}],
        "current-context": "berth-dev",
    }
    return json.dumps(content, indent=1) + "\n"


def key_text(key: Key) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    ).decode()


def public_text(key: Key) -> str:
    return (
        key.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode()
    )


def certificate_text(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def write(path: Path, text: str) -> None:
    """Only what changes: some programs look at their files again."""
    if path.exists() and path.read_text() == text:
        return
    fresh = path.with_name(f".{path.name}.new")
    fresh.touch(mode=0o600)
    fresh.chmod(0o600)
    fresh.write_text(text)
    fresh.replace(path)
