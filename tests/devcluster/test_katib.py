"""Katib in the development cluster, as far as it needs none."""

from __future__ import annotations

from pathlib import Path

from devcluster import katib
from devcluster.layout import HOST, KATIB_DATABASE_PORT, Layout
from devcluster.pki import SERVING
from devcluster.programs import OF_THE_CLUSTER


def test_it_is_built_on_demand_and_its_certificate_is_for_its_service() -> None:
    assert not set(katib.NEEDED) & set(OF_THE_CLUSTER)
    assert SERVING["katib-webhook"].hosts == (f"katib-controller.{katib.NAMESPACE}.svc",)


def test_its_suggestions_pass_restricted_pod_security_and_have_sizes() -> None:
    said = katib.configuration("image")["runtime"]["suggestions"]
    assert [one["algorithmName"] for one in said] == list(katib.ALGORITHMS)
    for one in said:
        assert one["securityContext"]["runAsNonRoot"]
        assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert one["resources"]["requests"]
        assert one["resources"]["limits"]


def test_the_database_is_not_root_and_listens_for_pods_only(tmp_path: Path) -> None:
    layout = Layout(tmp_path).made()
    words = [str(word) for word in katib.database(layout.base / "katib-database")]
    assert "setpriv" in words
    assert f"listen_addresses={HOST}" in words
    assert f"port={KATIB_DATABASE_PORT}" in words
    first = katib.password(layout)
    assert len(first) == 32
    assert katib.password(layout) == first
