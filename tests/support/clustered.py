"""A running portal with the development cluster attached, for tests and benchmarks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from benchmarks.lib import poll
from devcluster.kube import Kube
from tests.support import namespaces
from tests.support.portal import Portal

KEY = "dev"
ATTACHED_WITHIN_S = 120.0
GONE_WITHIN_S = 240.0


class ClusteredPortal(Portal):
    """``state`` is devcluster's; ``prefix`` begins the names of all its namespaces."""

    def __init__(
        self,
        state: Mapping[str, Any],
        prefix: str,
        env: Mapping[str, str] | None = None,
        var: Path | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(dict(env or {}), var)
        self.state, self.prefix = state, prefix
        host = state["host"]
        self.hub_url = f"http://{host}:{self.port + 2}"
        self.env = {
            "BERTH_INTERNAL_BIND": host,
            "BERTH_RECLAIM_GRACE_SECONDS": "20",  # programs of tests often do not hear SIGTERM
            "BERTH_INTERNAL_URL": self.hub_url,
            "BERTH_ALLOWED_HOSTS": f"localhost,127.0.0.1,{host}",
            "BERTH_INSECURE_REGISTRIES": state["registry"],
            **self.env,
        }
        self.options = {
            "namespace_prefix": prefix,
            "hub_url": self.hub_url,
            "hub_peers": [f"{host}/32"],
            "proxy_peers": [f"{host}/32"],
            "volume_path": state["volumes"],
            "scheduler": "gpu-binpack",
            "cpu_overcommit": 10,  # one small machine for everybody
            "default_image": state["images"]["jupyterlab"]["reference"],
            "sidecar_image": state["images"]["jupyterlab"]["reference"],
            "data_image": pinned(state["images"]["data"]),
            # the probe of NetworkPolicy is a test of its own; here it would only cost time
            "trusted": True,
            **(options or {}),
        }

    def start(self) -> ClusteredPortal:
        super().start()
        self.attach()
        return self

    def attach(self) -> None:
        """By the API, as an operator would; returns when the worker has seen it."""
        with self.api(self.token("admin")) as api:
            body = {
                "name": "Development cluster",
                "key": KEY,
                "kubeconfig": Path(self.state["kubeconfig"]).read_text(),
                "options": self.options,
            }
            ok(api.post("clusters", json=body))
            poll(
                lambda: api.get(f"clusters/{KEY}").json()["reachable"],
                within_s=ATTACHED_WITHIN_S,
                every_s=0.2,
            )

    def preset(self, **values: Any) -> str:
        """Make a preset of the cluster; return its short name."""
        fields = {"name": "On the cluster", "cluster_key": KEY, "environment": "", **values}
        return str(
            self.shell(
                "import json\n"
                "from accounts.models import User; from accounts.principal import Principal\n"
                "from notebooks.services.presets import PresetFields, preset_create\n"
                "who = Principal(user=User.objects.get(username='admin'))\n"
                f"fields = json.loads({json.dumps(fields)!r})\n"
                "answer = preset_create(principal=who, fields=PresetFields(values=fields)).slug"
            )
        )

    def close(self) -> None:
        """End everything; what it made in the cluster goes with its namespaces."""
        super().close()
        kube = Kube(Path(self.state["kubeconfig"]))
        try:
            mine = [
                n["metadata"]["name"]
                for n in kube.list("v1", "Namespace")
                if n["metadata"]["name"].startswith(self.prefix)
            ]
            for name in mine:
                namespaces.remove(kube, name)
            selector = f"berth.dev/instance={self.prefix.strip('-')}"
            for volume in kube.list("v1", "PersistentVolume", labelSelector=selector):
                kube.delete("v1", "PersistentVolume", volume["metadata"]["name"])
            poll(
                lambda: not any(kube.get("v1", "Namespace", name) for name in mine),
                within_s=GONE_WITHIN_S,
                every_s=0.5,
            )
        finally:
            kube.close()


def ok(answer: httpx.Response) -> httpx.Response:
    """Return it, or say what the portal answered."""
    if answer.is_error:
        message = f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text[:1000]}"
        raise RuntimeError(message)
    return answer


def pinned(image: Mapping[str, str]) -> str:
    """Return an image by what is in it: nodes fetch a new one when it changed."""
    return f"{image['reference'].rpartition(':')[0]}@{image['digest']}"
