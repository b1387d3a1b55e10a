"""A request to begin with, made of what a version says that goes in, and the same as code."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from serving.runtimes import OPENAI, V1, V2, runtime_of

if TYPE_CHECKING:
    from serving.models import Endpoint

MOST_NUMBERS = 64  # of an example: a picture would be a page of zeros
_TEXT = "BYTES"
_CHAT = "v1/chat/completions"


@dataclass(frozen=True)
class Example:
    """``path`` is what follows the endpoint's address and a slash."""

    protocol: str  # "": its own
    method: str
    path: str
    body: str
    note: str = ""


def examples_of(row: Endpoint) -> list[Example]:
    """Return those of what an endpoint serves."""
    signature = {} if row.version is None else row.version.signature
    return examples(runtime_of(row).speaks, signature, (row.model or row.name).partition("/")[0])


def examples(speaks: tuple[str, ...], signature: dict[str, Any], model: str) -> list[Example]:
    """Return one for each protocol that its server speaks; for its own just the address."""
    inputs = [one for one in signature.get("inputs") or [] if isinstance(one, dict)]
    found = []
    if V1 in speaks:
        body = {"instances": [_instance(inputs)]}
        found.append(Example(V1, "POST", f"v1/models/{model}:predict", _json(body)))
    if V2 in speaks:
        told = [_tensor(one) for one in inputs or [{"name": "input", "shape": [1, 4]}]]
        found.append(Example(V2, "POST", f"v2/models/{model}/infer", _json({"inputs": told})))
    if OPENAI in speaks:
        asks = [{"role": "user", "content": "Say hello in one short sentence."}]
        chat = {"model": model, "messages": asks, "max_tokens": 64}
        found.append(Example(OPENAI, "POST", _CHAT, _json(chat)))
    return found or [Example("", "GET", "", "")]


def _instance(inputs: list[dict[str, Any]]) -> Any:
    """Return one row: a list where one tensor goes in, else an object by name."""
    if not inputs:
        return [0.0, 0.0, 0.0, 0.0]
    columns = (inputs[0].get("parameters") or {}).get("columns")
    if len(inputs) == 1 and isinstance(columns, list):
        return {str(name): _value(inputs[0]) for name in columns[:MOST_NUMBERS]}
    rows = {str(one.get("name")): _filled(_shape(one)[1:], _value(one)) for one in inputs}
    return next(iter(rows.values())) if len(rows) == 1 else rows


def _tensor(one: dict[str, Any]) -> dict[str, Any]:
    shape = _shape(one)
    datatype = str(one.get("datatype") or "FP32")
    told = {"name": str(one.get("name")), "datatype": datatype, "shape": shape}
    return {**told, "data": [_value(one)] * math.prod(shape)}


def _lengths(one: dict[str, Any]) -> list[int]:
    """Return the shape with one for each length that is free."""
    said = one.get("shape")
    return [n if type(n) is int and n > 0 else 1 for n in said] if isinstance(said, list) else [1]


def _shape(one: dict[str, Any]) -> list[int]:
    """Return the same with no more numbers than are read."""
    shape = _lengths(one)
    for place in sorted(range(len(shape)), key=lambda n: -shape[n]):
        others = math.prod(shape[:place] + shape[place + 1 :])
        shape[place] = min(shape[place], max(1, MOST_NUMBERS // others))
    return shape or [1]


def is_cut(signature: dict[str, Any]) -> bool:
    """Whether an example has fewer numbers than the model takes."""
    inputs = (one for one in signature.get("inputs") or [] if isinstance(one, dict))
    return any(one.get("shape") and _lengths(one) != _shape(one) for one in inputs)


def _value(one: dict[str, Any]) -> Any:
    datatype = str(one.get("datatype") or "FP32")
    if datatype == _TEXT:
        return "text"
    if datatype == "BOOL":
        return False
    return 0 if datatype.startswith(("INT", "UINT")) else 0.0


def _filled(shape: list[int], value: Any) -> Any:
    for length in reversed(shape):
        value = [value] * length
    return value


def _json(told: Any) -> str:
    """Return it as people read it: short lists on one line."""
    text = json.dumps(told, indent=2, ensure_ascii=False)
    short = json.dumps(told, ensure_ascii=False)
    return short if len(short) <= 72 else text if text.count("\n") <= 24 else short  # noqa: PLR2004


# --- The same as code -----------------------------------------------------------------------------


def as_curl(address: str, example: Example) -> str:
    place = f"{address}/{example.path}"
    lines = [f"curl {_quoted(place)}", '  -H "Authorization: Bearer $BERTH_KEY"']
    if example.method == "POST":
        lines += ["  -H 'Content-Type: application/json'", f"  -d {_quoted(_short(example.body))}"]
    return " \\\n".join(lines)


def as_python(address: str, example: Example) -> str:
    place = json.dumps(f"{address}/{example.path}")
    call = "post" if example.method == "POST" else "get"
    lines = ["import os", "", "import requests", "", f"answer = requests.{call}(", f"    {place},"]
    lines.append('    headers={"Authorization": f"Bearer {os.environ[\'BERTH_KEY\']}"},')
    if example.method == "POST":
        lines.append(f"    json={_python(example.body)},")
    lines += ["    timeout=120,", ")", "answer.raise_for_status()", "print(answer.json())"]
    return "\n".join(lines)


def as_openai(address: str, example: Example) -> str:
    said = json.loads(example.body)
    lines = ["import os", "", "from openai import OpenAI", "", "client = OpenAI("]
    lines += [f"    base_url={json.dumps(address + '/v1')},"]
    lines += ['    api_key=os.environ["BERTH_KEY"],', ")"]
    lines += ["answer = client.chat.completions.create(", f"    model={json.dumps(said['model'])},"]
    lines += [f"    messages={said['messages']!r},", ")"]
    return "\n".join([*lines, "print(answer.choices[0].message.content)"])


def _short(body: str) -> str:
    try:
        return json.dumps(json.loads(body), ensure_ascii=False)
    except ValueError:
        return body


def _python(body: str) -> str:
    try:
        return repr(json.loads(body))
    except ValueError:
        return repr(body)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
