"""No module imports what imports it, neither between apps nor inside one."""

from __future__ import annotations

import configparser
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[2]


def apps() -> list[str]:
    """Return the packages whose layers are kept, as ``.importlinter`` names them."""
    file = configparser.ConfigParser()
    file.read(ROOT / ".importlinter")
    return file["importlinter"]["root_packages"].split()


def circles(graph: grimp.ImportGraph) -> list[list[str]]:
    """Return each set of modules of which every one leads to every other (Tarjan, 1972)."""
    found: list[list[str]] = []
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        open_.append(module)
        for other in graph.find_modules_directly_imported_by(module):
            if other not in number:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in open_:
                lowest[module] = min(lowest[module], number[other])
        if lowest[module] == number[module]:
            circle = open_[open_.index(module) :]
            del open_[-len(circle) :]
            if len(circle) > 1:
                found.append(sorted(circle))

    for module in sorted(graph.modules):
        if module not in number:
            visit(module)
    return found


def test_no_module_imports_what_imports_it() -> None:
    graph = grimp.build_graph(*apps(), exclude_type_checking_imports=True, cache_dir=None)
    assert circles(graph) == []


def test_a_circle_is_found() -> None:
    graph = grimp.ImportGraph()
    for module in ("a", "b", "c", "d"):
        graph.add_module(module)
    for importer, imported in (("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")):
        graph.add_import(importer=importer, imported=imported)
    assert circles(graph) == [["a", "b", "c"]]
