"""What an MLflow registry says of its models, asked by the gate, never by a page.

Which server it is, and who asks there, says a credential of the project (kind ``mlflow``).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit
from uuid import UUID

import yaml
from django.utils.translation import gettext as _

from common.errors import Conflict, NotFound, Unavailable, wrong
from common.outbound import Answer, Bounds, Client, OutboundError
from credentials.choices import CredentialKind, Use
from credentials.decrypt import opened_all
from credentials.kinds.stores import policy_of_stores
from credentials.models import Credential
from credentials.probe.stores import mlflow_headers
from credentials.selectors import credentials_usable
from loaders.services.resolve import find_credential
from runtime import gateway
from serving.choices import Framework

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project

QUESTION = "models/mlflow"
PROXY = "mlflow-artifacts:"
SECONDS = 10.0
PAGE = 50
_API = "/api/2.0/mlflow"
_MOST_FILE = 256 * 1024  # of the file MLmodel
_METRICS = 50
_MISSING, _FORBIDS = "mlflow-missing", "mlflow-forbids"  # codes of errors
_BUCKETS = frozenset({"s3", "gs"})
# What MLflow calls the ways in which it saves; what is not here, no server loads.
FLAVOURS = {
    "sklearn": Framework.SKLEARN,
    "xgboost": Framework.XGBOOST,
    "lightgbm": Framework.LIGHTGBM,
    "onnx": Framework.ONNX,
    "tensorflow": Framework.TENSORFLOW,
    "pytorch": Framework.PYTORCH,
    "transformers": Framework.HUGGINGFACE,
}
_DATATYPES = {
    "boolean": "BOOL",
    "integer": "INT32",
    "long": "INT64",
    "float": "FP32",
    "double": "FP64",
    "string": "BYTES",
    "binary": "BYTES",
    "bool": "BOOL",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
    **{f"{kind}{bits}": f"{kind.upper()}{bits}" for kind in ("int", "uint") for bits in (8, 16)},
    **{f"{kind}{bits}": f"{kind.upper()}{bits}" for kind in ("int", "uint") for bits in (32, 64)},
    "str": "BYTES",
    "object": "BYTES",
}

# --- asking -------------------------------------------------------------------------------------


def server_named(who: Principal, project: Project, name: str) -> Credential:
    """Return the credential of an MLflow server that ``who`` may use, by name or id."""
    found = find_credential(who, project, name)
    if found is None or found.kind != CredentialKind.MLFLOW:
        raise wrong("origin", _("“%(name)s” is no credential of MLflow.") % {"name": name[:80]})
    return found


def server_or_only(who: Principal, project: Project, name: str) -> Credential | None:
    """Return the named one, or where none is named the only one that there is; None: none is."""
    if name:
        return server_named(who, project, name)
    found = list(credentials_usable(who, project, [CredentialKind.MLFLOW])[:2])
    if len(found) > 1:
        raise wrong("server", _("There are several MLflow servers: say which."))
    return found[0] if found else None


def models(server: Credential, words: str = "", token: str = "") -> Mapping[str, Any]:
    """Return ``models`` (name, description, newest, aliases) and ``token`` of the next page."""
    return _ask(server, what="models", words=words, token=token)


def versions(server: Credential, model: str, token: str = "") -> Mapping[str, Any]:
    """Return ``versions`` (version, status, description, run, created), the newest first."""
    return _ask(server, what="versions", model=model, token=token)


def version(server: Credential, model: str, number: str) -> Mapping[str, Any]:
    """Return one by its number, ``latest`` or ``@ALIAS``: url, framework, signature, metrics."""
    return _ask(server, what="version", model=model, number=number)


def _ask(server: Credential, **asked: str) -> Mapping[str, Any]:
    payload = {"credential": str(server.uid), **asked}
    return gateway.ask(QUESTION, payload, timeout_s=SECONDS + 2)


# --- answering ----------------------------------------------------------------------------------


def answer(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Handle the question where the credential may be opened: in the gate."""
    rows = Credential.objects.filter(kind=CredentialKind.MLFLOW)
    row = rows.filter(uid=UUID(str(asked["credential"]))).first()
    if row is None:
        raise NotFound(_("There is no such credential, or you may not see it."))
    ((_row, secret),) = opened_all([row], Use.REGISTRY)
    bounds = Bounds(seconds=SECONDS, body_bytes=4 * 1024 * 1024)
    try:
        with Client(policy_of_stores(), bounds) as client:
            server = _Server(
                client, str(row.public["endpoint"]), mlflow_headers(row.public, secret)
            )
            if asked["what"] == "models":
                return server.models(str(asked["words"]), str(asked["token"]))
            if asked["what"] == "versions":
                return server.versions(str(asked["model"]), str(asked["token"]))
            return server.version(str(asked["model"]), str(asked["number"]))
    except OutboundError as error:
        text = _(
            "MLflow could not be asked: %(why)s Look whether it runs, and test its credential."
        )
        text %= {"why": error.message}
        raise Unavailable(text, code="mlflow-away") from error


class _Server:
    def __init__(self, client: Client, endpoint: str, headers: Mapping[str, str]) -> None:
        self._client, self._endpoint, self._headers = client, endpoint, headers

    def models(self, words: str, token: str) -> Mapping[str, Any]:
        letters = "".join(c for c in words if c.isprintable() and c not in "'\"\\%")[:80]
        query = {"max_results": PAGE, "order_by": "name ASC"}
        query |= {"filter": f"name ILIKE '%{letters}%'"} if letters else {}
        said = self._get(
            "registered-models/search", query | ({"page_token": token} if token else {})
        )
        found = [
            {
                "name": _text(one, "name"),
                "description": _text(one, "description"),
                "newest": max((_number(v) for v in _rows(one, "latest_versions")), default=0),
                "aliases": {_text(a, "alias"): _text(a, "version") for a in _rows(one, "aliases")},
            }
            for one in _rows(said, "registered_models")
        ]
        return {"models": found, "token": _text(said, "next_page_token", 1000)}

    def versions(self, model: str, token: str, most: int = PAGE) -> Mapping[str, Any]:
        if "'" in model:
            raise NotFound(_("MLflow has no model “%(name)s”.") % {"name": model[:80]})
        query = {"filter": f"name='{model}'", "max_results": most}
        query |= {"order_by": "version_number DESC"} | ({"page_token": token} if token else {})
        said = self._get("model-versions/search", query)
        found = [
            {
                "version": _text(one, "version"),
                "status": _text(one, "status"),
                "description": _text(one, "description"),
                "run": _text(one, "run_id"),
                "created": one.get("creation_timestamp"),
            }
            for one in _rows(said, "model_versions")
        ]
        return {"versions": found, "token": _text(said, "next_page_token", 1000)}

    def version(self, model: str, number: str) -> Mapping[str, Any]:
        if number.startswith("@"):
            query = {"name": model, "alias": number[1:]}
            one = self._get("registered-models/alias", query).get("model_version")
        else:
            if number == "latest":
                newest = self.versions(model, "", most=1)["versions"]
                number = newest[0]["version"] if newest else "0"
            one = self._get("model-versions/get", {"name": model, "version": number})
            one = one.get("model_version")
        one = one if isinstance(one, dict) else {}
        where, number = {"name": model, "version": _text(one, "version")}, _text(one, "version")
        at = _text(self._get("model-versions/get-download-uri", where), "artifact_uri", 1024)
        url = _url_of(at)
        logged = self._logged(url) if url.startswith(PROXY) else {}
        return {
            "model": model,
            "version": number,
            "run": _text(one, "run_id"),
            "url": url,
            "framework": _framework_of(logged),
            "signature": _signature_of(logged),
            "metrics": self._metrics(one),
        }

    def _metrics(self, one: Mapping[str, Any]) -> dict[str, float]:
        """Return those of the logged model itself, else of its run.

        Of one that is gone none, nor of one that the credential may not see.
        """
        kind, _slash, model = _text(one, "source").partition("models:/")
        said: Any = {}
        try:
            if not kind and model.startswith("m-"):
                said = self._get(f"logged-models/{quote(model, safe='')}", {}).get("model")
            elif run := _text(one, "run_id"):
                said = self._get("runs/get", {"run_id": run}).get("run")
        except (NotFound, Conflict) as error:
            if error.code not in {_MISSING, _FORBIDS}:
                raise
        data = said.get("data") if isinstance(said, dict) else {}
        rows = _rows(data if isinstance(data, dict) else {}, "metrics")[:_METRICS]
        values = {_text(row, "key", 80): row.get("value") for row in rows}
        return {
            name: float(value)
            for name, value in values.items()
            if name and isinstance(value, int | float) and abs(value) <= sys.float_info.max
        }

    def _logged(self, url: str) -> Mapping[str, Any]:
        """Return what MLflow wrote beside the model: the file MLmodel."""
        path = quote(url.removeprefix(f"{PROXY}///"), safe="/-._~")
        found = self._asked(f"/api/2.0/mlflow-artifacts/artifacts/{path}MLmodel")
        if found.status != 200 or len(found.body) > _MOST_FILE:  # noqa: PLR2004
            return {}
        try:
            said = yaml.safe_load(found.body)
        except (yaml.YAMLError, RecursionError, ValueError):
            return {}
        return said if isinstance(said, dict) else {}

    def _get(self, path: str, query: Mapping[str, Any]) -> dict[str, Any]:
        found = self._asked(f"{_API}/{path}?{urlencode(query)}")
        try:
            said = json.loads(found.body)
        except (ValueError, RecursionError):
            said = None
        if found.status == 401:  # noqa: PLR2004
            text = _("MLflow does not accept the credential. Test it on its page.")
            raise Conflict(text, code="mlflow-refuses")
        if found.status == 403:  # noqa: PLR2004
            text = _(
                "The credential may not see this in MLflow: give it the right there, or use "
                "another one."
            )
            raise Conflict(text, code=_FORBIDS)
        if found.status in {400, 404} and isinstance(said, dict) and said.get("error_code"):
            text = _("MLflow has no such model, version or alias.")
            raise NotFound(text, code=_MISSING)
        if found.status != 200 or not isinstance(said, dict):  # noqa: PLR2004
            text = _("MLflow answers %(status)d, not as its tracking server does.")
            raise Unavailable(text % {"status": found.status}, code="mlflow-away")
        return said

    def _asked(self, target: str) -> Answer:
        url = f"{self._endpoint}{target}"
        insecure = url.startswith("http://")  # which its operator has to have named
        return self._client.request("GET", url, headers=self._headers, insecure=insecure)


def _url_of(at: str) -> str:
    """Return where the files are, as a load takes it; raise where none can reach them."""
    parts = urlsplit(at)
    if f"{parts.scheme}:" == PROXY:
        # whatever host it names: only the server that was asked gets the credential
        return f"{PROXY}///{parts.path.strip('/')}/"
    if parts.scheme in _BUCKETS and parts.path.strip("/"):
        return f"{parts.scheme}://{parts.netloc}/{parts.path.strip('/')}/"
    text = _(
        "MLflow keeps its files at “%(where)s”, where Berth can't get them: let MLflow hand them "
        "on (--serve-artifacts), or keep them in S3 or GCS."
    )
    raise wrong("origin", text % {"where": at[:80]})


def _framework_of(logged: Mapping[str, Any]) -> str:
    """Return the framework of its flavours; raise where no server here loads any of them."""
    flavours = logged.get("flavors")
    if not isinstance(flavours, dict) or not flavours:
        return ""
    found = next((FLAVOURS[name] for name in flavours if name in FLAVOURS), None)
    if found is None:
        text = _(
            "MLflow saved it as %(flavours)s, which no model server here loads: serve it from an "
            "image of your own."
        )
        names = ", ".join(sorted(map(str, flavours)))[:200]
        raise wrong("origin", text % {"flavours": names})
    its = flavours.get("sklearn")
    if isinstance(its, dict) and its.get("serialization_format") == "skops":
        text = _(
            "MLflow saved it in skops, which no model server here reads: log it with "
            "serialization_format=“cloudpickle”."
        )
        raise wrong("origin", text)
    return str(found)


def _signature_of(logged: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs and outputs as Open Inference v2 has them; {}: it says none."""
    said = logged.get("signature")
    said = said if isinstance(said, dict) else {}
    sides = {side: _tensors(said.get(side), side[:-1]) for side in ("inputs", "outputs")}
    return {side: tensors for side, tensors in sides.items() if tensors}


def _tensors(text: Any, name: str) -> list[dict[str, Any]]:
    try:
        rows = json.loads(text) if isinstance(text, str) else []
    except (ValueError, RecursionError):
        return []
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    found = []
    for row in rows:
        spec = row.get("tensor-spec")
        spec = spec if isinstance(spec, dict) else {}
        datatype = _DATATYPES.get(str(spec.get("dtype") or row.get("type")), "BYTES")
        shape = spec.get("shape") if isinstance(spec.get("shape"), list) else [-1]
        found.append({"name": str(row.get("name") or name), "datatype": datatype, "shape": shape})
    alike = len({one["datatype"] for one in found}) == 1 and not any(
        "tensor-spec" in r for r in rows
    )
    if alike and all(row.get("name") for row in rows):  # a table of one type is one tensor
        columns = [one["name"] for one in found]
        table = {"name": name, "datatype": found[0]["datatype"], "shape": [-1, len(columns)]}
        return [{**table, "parameters": {"columns": columns}}]
    return found


def _rows(said: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = said.get(name)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _text(said: Mapping[str, Any], name: str, most: int = 300) -> str:
    text = str(said.get(name) or "")[:most]
    return "".join(c if c.isprintable() else " " for c in text).strip()


def _number(said: Mapping[str, Any]) -> int:
    text = str(said.get("version", ""))
    return int(text) if text.isdecimal() and len(text) < 12 else 0  # noqa: PLR2004
