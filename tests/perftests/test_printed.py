"""What is read of a log: tables of nccl-tests of several versions, of our own program, of others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from common.clock import now
from common.errors import Invalid
from perftests import programs, rules
from perftests.rules import compare, printed

# Columns as nccl-tests prints them; the figures are made up.
NOW = """
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    41.61   25.20   22.05      0    40.90   25.64   22.43      0
"""
WITHOUT_ROOT = "     1048576    262144   float     sum    61.2   17.12   29.97  4e-07    60.9   17.2  30.1  4e-07\n"
WITHOUT_REDOP = "  2097152   65536   half   80.1  26.18  22.9  0e+00   79.2  26.4  23.1  0e+00\n"
GATHERED = "   8192    256   float    none      -1     9.5    0.86    0.75      0     9.1   0.90   0.79      0\n"
IN_PLACE_ONLY = " 4096  1024  float  sum  -1   N/A   N/A   N/A   N/A   7.5   0.55   0.48   0\n"


@pytest.mark.parametrize(
    ("text", "size", "busbw", "wrong"),
    [
        (NOW, 1048576, 22.05, 0),
        (WITHOUT_ROOT, 1048576, 29.97, 4e-07),
        (WITHOUT_REDOP, 2097152, 22.9, 0),
        (GATHERED, 8192, 0.75, 0),
        (IN_PLACE_ONLY, 4096, 0.48, 0),
        (NOW.replace(" 0    40", " 3    40"), 1048576, 22.05, 3),
    ],
    ids=["now", "without-root", "without-redop", "all-gather", "in-place-only", "wrong"],
)
def test_a_line_of_nccl_tests_is_read(text: str, size: int, busbw: float, wrong: float) -> None:
    _backend, (line,) = printed(text)
    assert (line["size"], line["busbw"], line["wrong"]) == (size, busbw, wrong)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4096 1024 float sum -1 nan inf 1e999 0\n",
        "4096 1024 float sum -1\n",
        "scaling 1 1 0 5\n",
        "scaling 1 1 -3 5\n",
        "4096 1024 " + "x " * 5000 + "\n",
        "# perftest [[[[" + "[" * 5000 + "\n",
        '# perftest {"backend": "<script>"}\n',
        "\uff14\uff10 1024 float sum -1 1 1 1 0\n",
    ],
)
def test_what_is_no_result_is_none(text: str) -> None:
    assert printed(text) == ("", [])


def test_no_more_lines_are_kept_than_a_table_has() -> None:
    assert len(printed("scaling 1 1 2.0 3.0\n" * 10_000)[1]) == rules.MOST_LINES


def test_the_program_is_packed_to_the_same_bytes_always() -> None:
    first = programs.package()
    programs.package.cache_clear()
    assert programs.package() == first


@pytest.mark.parametrize("test", ["all-reduce", "all-gather", "reduce-scatter", "scaling"])
def test_three_processes_measure_by_sockets_of_their_own(test: str, tmp_path: Path) -> None:
    """Real sums over real sockets: what is not right is told as wrong."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "torch.py").write_text("raise ImportError")  # whatever this Python has
    program = Path(programs.__file__).parent / programs.NAME
    words = [sys.executable, program, "--test", test, "--replicas", "3", "--max-mib", "1"]
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PYTHONPATH": str(tmp_path)}
    begun = [
        subprocess.Popen(words, env={**env, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in (2, 1, 0)
    ]
    said = [one.communicate(timeout=60)[0] for one in begun]
    assert [one.returncode for one in begun] == [0, 0, 0]
    assert said[:2] == ["", ""]
    backend, lines = printed(said[2])
    assert backend == "sockets"
    if test == "scaling":
        assert [line["replicas"] for line in lines] == [1, 2, 3]
        assert all(line["steps_per_s"] > 0 for line in lines)
    else:
        assert len(lines) == 8
        assert not any(line["wrong"] for line in lines)
        assert all(line["busbw"] <= line["algbw"] * 4 / 3 + 0.001 for line in lines)


def _row(busbw: float, nodes: list[str], **more: Any) -> Any:
    lines = [{"size": 1024, "busbw": 1.0}, {"size": 4096, "busbw": busbw}]
    values = {"is_scaling": False, "lines": lines, "nodes": nodes, "created_at": now(), **more}
    return SimpleNamespace(**values)


@pytest.mark.parametrize(
    ("busbw", "nodes", "words"),
    [
        (8.8, ["a", "b"], "busbw is 12\N{NO-BREAK SPACE}% under the baseline"),
        (12.0, ["a", "b"], "busbw is 20\N{NO-BREAK SPACE}% over the baseline"),
        (9.8, ["b", "a"], "busbw is as the baseline"),
    ],
)
def test_a_sentence_says_what_became_slower_and_where(
    busbw: float, nodes: list[str], words: str
) -> None:
    found = compare(_row(busbw, nodes), _row(10.0, ["a", "b"]))
    assert found is not None
    assert found.sentence.startswith(words)
    assert found.sentence.endswith("on the same 2 nodes.")
    elsewhere = compare(_row(busbw, ["c"]), _row(10.0, ["a", "b"]))
    assert elsewhere is not None
    assert elsewhere.sentence.endswith("on other nodes.")


def test_nothing_measured_alike_is_not_compared() -> None:
    other = _row(1.0, [], lines=[{"size": 7, "busbw": 1.0}])
    assert compare(_row(1.0, []), other) is None


@pytest.mark.parametrize("variables", [{"LD_PRELOAD": "x"}, {"NCCL_ALGO": "a\nb"}, {"NCCL_A": 3}])
def test_only_variables_of_nccl_are_taken(variables: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        rules.require_variables(variables)


@pytest.mark.parametrize("word", ["1e308", "1e-308", "-3", "1e16"])
def test_a_figure_that_nothing_measured_can_have_is_none(word: str) -> None:
    assert printed(f"scaling 1 1 {word} {word}")[1] == []
