"""Tables of a gateway as JSON, for tests and benchmarks that have no rows."""

from __future__ import annotations

from typing import Any

from serving.gateway.table import Endpoint, Principal, RoutingTable, Row


def from_json(document: dict[str, Any]) -> RoutingTable:
    """Read a table that was written by hand."""

    def row(told: dict[str, Any]) -> Row:
        return Row(**{**told, "replicas": tuple(told.get("replicas", ()))})

    def endpoint(told: dict[str, Any]) -> Endpoint:
        canary = told.get("canary")
        rows = {"main": row(told["main"]), "canary": row(canary) if canary else None}
        return Endpoint(**{**told, **rows, "origins": tuple(told.get("origins", ()))})

    def principal(told: dict[str, Any]) -> Principal:
        sets = {name: frozenset(told.get(name, ())) for name in ("endpoints", "projects")}
        return Principal(**{**told, **sets})

    return RoutingTable(
        tuple(endpoint(one) for one in document.get("endpoints", ())),
        {digest: principal(one) for digest, one in document.get("principals", {}).items()},
    )
