"""Reading manifests: YAML that means what it looks like."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

from berth_cli.client import EXIT_USAGE, ApiError


class _Loader(yaml.SafeLoader):
    """YAML that means what it looks like: each key once, and no number in base 8 or 60."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:  # noqa: FBT001, FBT002
        known: set[str] = set()
        for key, _value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in known:
                raise _error(f"“{key.value}” stands twice", key)
            known.add(str(key.value))
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        number: int = super().construct_yaml_int(node)
        if re.match(r"[-+]?0\d", node.value) or ":" in node.value:
            raise _error(f"{node.value} would be {number}; say {number}, or put it in quotes", node)
        return number


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


def _error(said: str, node: yaml.Node) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, said, node.start_mark)


def documents_of(file: str) -> list[dict[str, Any]]:
    """Return the documents of a YAML file (- is standard input), or say what is wrong."""
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        text = data.decode()
        documents = [d for d in yaml.load_all(text, Loader=_Loader) if d is not None]
    except OSError as error:
        raise ApiError(f"{file} can't be read: {error.strerror}", EXIT_USAGE) from error
    except UnicodeDecodeError as error:
        raise ApiError(f"{file} is not text in UTF-8.", EXIT_USAGE) from error
    except yaml.YAMLError as error:
        raise ApiError(f"{file} is not YAML: {error}", EXIT_USAGE) from error
    if not documents:
        raise ApiError(f"{file} holds nothing.", EXIT_USAGE)
    if not all(isinstance(document, dict) for document in documents):
        raise ApiError(f"{file}: each document must be a mapping.", EXIT_USAGE)
    try:
        json.dumps(documents)
    except (TypeError, ValueError) as error:  # YAML knows dates, sets, and loops
        said = f"{file} holds what can't be sent ({error}); put dates in quotes."
        raise ApiError(said, EXIT_USAGE) from error
    return documents
