"""Katib, which chooses the values of searches: its controller and db-manager as pods.

A cluster has it when it is built: it takes minutes, and only searches need it
(``python -m devcluster katib``). Its database is a PostgreSQL of this host.
"""

import base64
import json
import os
import pwd
import secrets
import shutil
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from devcluster import checks, images, kueue, pki, state
from devcluster.kube import Kube
from devcluster.layout import HOST, KATIB_DATABASE_PORT, POD_CIDR, Layout
from devcluster.processes import Processes
from devcluster.programs import PROGRAMS, build, module_folder, unbuilt
from tools.provision_tests import postgres_user, program
from tools.setup_debian import install_debian
from tools.setup_shell import SetupError, run, say

NEEDED = ("katib",)
NAMESPACE = "kubeflow"
DATABASE = "katib-database"  # the process
ALGORITHMS = ("random", "tpe", "cmaes", "sobol")  # what the suggestion in Go can
DATA_AT = "/mnt"  # where PostgreSQL, which is not root, sees its folder
PATIENCE_S = 60
LOCKED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def has() -> bool:
    return not unbuilt(NEEDED)


def add(layout: Layout) -> None:
    """To a cluster that is up: what lacks is built, what runs is left alone."""
    kube = Kube(layout.admin)
    for wanted in unbuilt(NEEDED):
        build(wanted, lambda text: say(f"  built {text}"))
    try:
        pki.make(layout)
        published = start(layout, Processes(layout), kube)
        kube.until("Katib", lambda: ready(kube), PATIENCE_S)
        known = (state.read(layout) or {}).get("images", {})
        state.write(layout, {**known, **published}, kube)
    except TimeoutError as error:
        raise SetupError(str(error)) from error
    finally:
        kube.close()


def start(layout: Layout, processes: Processes, kube: Kube) -> dict[str, dict[str, str]]:
    """The database and the kinds first. Its pods are not waited for: only searches need them."""
    image = images.publish(images.katib, lambda text: say(f"  {text} …"))
    start_database(layout, processes)
    heads = objects("crd/*.yaml")
    for item in (namespace(), *heads):
        kube.apply(item)
    kube.until("kinds of Katib", lambda: kueue.established(kube, heads), PATIENCE_S)
    for item in [*settings(layout, image["reference"]), *objects("controller/rbac.yaml")]:
        kube.apply(item)
    for name in ("controller/service", "controller/controller", "db-manager/service"):
        for item in objects(f"{name}.yaml"):
            kube.apply(placed(item, image["reference"]))
    for item in objects("db-manager/db-manager.yaml"):
        kube.apply(placed(item, image["reference"]))
    for item in objects("webhook/webhooks.yaml"):
        for hook in item["webhooks"]:
            hook["clientConfig"]["caBundle"] = kueue.authority(layout)
        kube.apply(item)
    return {"katib": image}


def ready(kube: Kube) -> bool:
    found = kube.list("apps/v1", "Deployment", NAMESPACE)
    return len(found) > 1 and all((d.get("status") or {}).get("readyReplicas") for d in found)


# --- Its objects ----------------------------------------------------------------------------------


def namespace() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def objects(pattern: str) -> list[dict[str, Any]]:
    """As the module has them."""
    files = sorted(path for path in sources().glob(pattern) if path.name != "kustomization.yaml")
    return [item for file in files for item in yaml.safe_load_all(file.read_text()) if item]


@cache
def sources() -> Path:
    return module_folder(PROGRAMS["katib"]) / "manifests/v1beta1/components"


def placed(item: dict[str, Any], image: str) -> dict[str, Any]:
    """With our image and database, in place of its own."""
    if item["kind"] != "Deployment":
        return item
    pod = item["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    container["image"] = image
    container["command"] = [f"/{container['name']}"]
    container["resources"] = {"requests": {"cpu": "20m", "memory": "64Mi"}}
    pod["terminationGracePeriodSeconds"] = 1
    if container["name"] == "katib-db-manager":
        known = {"name": "katib-database"}
        container["env"] = []
        container["envFrom"] = [{"secretRef": known}]
        container["livenessProbe"]["initialDelaySeconds"] = 1
        container["readinessProbe"] = {"grpc": {"port": 6789}, "periodSeconds": 1}
    else:
        container["readinessProbe"]["periodSeconds"] = 1
    return item


def settings(layout: Layout, image: str) -> list[dict[str, Any]]:
    """What its pods read: the certificate, the database, and which image suggests values."""
    own = {"namespace": NAMESPACE}
    text = json.dumps(configuration(image))
    pair = {f"tls.{end}": f"katib-webhook.{end}" for end in ("crt", "key")}
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "katib-config", **own},
            "data": {"katib-config.yaml": text},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {"name": "katib-webhook-cert", **own},
            "data": {
                there: base64.b64encode((layout.pki / here).read_bytes()).decode()
                for there, here in pair.items()
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "katib-database", **own},
            "stringData": {
                "DB_NAME": "postgres",
                "DB_USER": "postgres",
                "DB_PASSWORD": password(layout),
                "KATIB_POSTGRESQL_DB_HOST": HOST,
                "KATIB_POSTGRESQL_DB_PORT": str(KATIB_DATABASE_PORT),
                "KATIB_POSTGRESQL_DB_DATABASE": "postgres",
            },
        },
    ]


def configuration(image: str) -> dict[str, Any]:
    requests = {"cpu": "20m", "memory": "64Mi"}
    suggestion = {
        "image": image,
        "command": ["/katib-goptuna"],
        "resources": {"requests": requests, "limits": {"cpu": "500m", "memory": "256Mi"}},
        "securityContext": {**LOCKED, "runAsUser": images.USER},
        # Its own waits 10 s before the first look.
        "readinessProbe": {"grpc": {"port": 6789}, "periodSeconds": 1},
    }
    return {
        "apiVersion": "config.kubeflow.org/v1beta1",
        "kind": "KatibConfig",
        "init": {
            "certGenerator": {"enable": False},
            "controller": {"webhookPort": 8443, "trialResources": ["Job.v1.batch"]},
        },
        "runtime": {
            "suggestions": [{"algorithmName": name, **suggestion} for name in ALGORITHMS],
        },
    }


# --- Its database ---------------------------------------------------------------------------------


def password(layout: Layout) -> str:
    file = layout.pki / "katib-database.password"
    if not file.exists():
        pki.write(file, secrets.token_hex(16))
    return file.read_text()


def start_database(layout: Layout, processes: Processes) -> None:
    """PostgreSQL refuses to run as root, and none else may look into the cluster's folder."""
    data = layout.base / "katib-database"
    if not (data / "PG_VERSION").exists():
        if program("postgres") is None:
            install_debian(["postgresql"])
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(mode=0o700)
        with tempfile.NamedTemporaryFile("w") as secret:
            secret.write(password(layout))
            secret.flush()
            for path in (data, Path(secret.name)):
                os.chown(path, user().pw_uid, user().pw_gid)
            access = ["-A", "scram-sha-256", "--pwfile", secret.name]
            said = ["-U", "postgres", "-E", "UTF8", "--locale=C", "-N", *access]
            run(inside(data, "initdb", "-D", DATA_AT, *said))
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {POD_CIDR} scram-sha-256\n")
    processes.start(DATABASE, database(data))
    processes.wait(DATABASE, lambda: checks.taken(HOST, KATIB_DATABASE_PORT))


def user() -> pwd.struct_passwd:
    return postgres_user() or pwd.getpwuid(os.geteuid())


def inside(data: Path, name: str, *words: object) -> list[object]:
    """A program of PostgreSQL's, as its user, which finds its folder at ``DATA_AT``."""
    initdb = program("postgres")
    if initdb is None:
        raise SetupError("PostgreSQL is not there: Katib keeps what trials said in one.")
    who = ["setpriv", f"--reuid={user().pw_uid}", f"--regid={user().pw_gid}", "--clear-groups"]
    script = f'mount --bind "$1" {DATA_AT}; cd {DATA_AT}; shift; exec "$@"'
    found = initdb.resolve().with_name(name)
    return ["unshare", "-m", "sh", "-ec", script, DATABASE, data, *who, found, *words]


def database(data: Path) -> Iterable[object]:
    options = {
        "port": KATIB_DATABASE_PORT,
        "listen_addresses": HOST,
        "unix_socket_directories": "",
        "max_connections": 30,
        "fsync": "off",  # it is lost with the cluster anyway
    }
    words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    return inside(data, "postgres", "-D", DATA_AT, *words)
