"""Instances of a batch prediction: what is one, what is none, and that reading goes on anywhere."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serving.programs import batch_input, batch_parquet
from serving.programs.batch_input import Place, Record, Shape, check_columns, files_in, records
from serving.programs.batch_output import Results, reason_of
from serving.programs.batch_predict import MOST_SHARE, Chunk, chunks, shape_of, share_of
from serving.programs.files import RefusedError


def read(folder: Path, shape: Shape = Shape(), at: Place = Place()) -> list[Record]:  # noqa: B008
    files = files_in(folder, folder / "none")
    return list(records(files, [path.name for path in files], at, shape))


def told(folder: Path, shape: Shape = Shape()) -> list[object]:  # noqa: B008 - frozen
    found = read(folder, shape)
    return [one.problem or json.loads(one.body) for one in found]


def test_lines_of_json_are_instances_and_others_say_why_not(tmp_path) -> None:
    lines = [
        b"\xef\xbb\xbf[1, 2]",
        b"",
        b"[1,",
        b"NaN",
        b'"\x93\xfa"',
        b"  {}\r",
        b"[" * 5000,
        b"7",
    ]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    found = told(tmp_path)
    assert found[0] == [1, 2]
    assert found[-3] == {}
    assert found[-1] == 7  # without an end of line
    assert [str(one).split(":")[0] for one in found[1:4]] == [
        *["The line is no JSON"] * 2,
        "The line is not UTF-8.",
    ]
    assert found[-2] == "The line is nested too deeply."
    assert [one.line for one in read(tmp_path)] == [1, 3, 4, 5, 6, 7, 8]


def test_a_line_of_a_mebibyte_is_read_and_a_longer_one_than_may_be_is_passed_over(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(batch_input, "MOST_LINE", 2 * 2**20)
    text = json.dumps("x" * 2**20)
    (tmp_path / "a.jsonl").write_text(f"{text}\n[{'1,' * 2**21}1]\n[3]\n")
    assert told(tmp_path) == [json.loads(text), "The line is longer than 2 MiB.", [3]]


def test_columns_of_csv_become_what_the_model_takes(tmp_path) -> None:
    (tmp_path / "a.csv").write_text('city,size,"no"\nKyoto,1.5,007\n"A,\nB",,-2e3\n1,2\n')
    uneven = "The row has 2 values, and the first one 3."
    assert told(tmp_path) == [
        {"city": "Kyoto", "size": 1.5, "no": "007"},
        {"city": "A,\nB", "size": None, "no": -2000.0},
        uneven,
    ]
    assert told(tmp_path, Shape(("size", "city")))[0] == {"size": 1.5, "city": "Kyoto"}
    assert told(tmp_path, Shape(count=3))[0] == ["Kyoto", 1.5, "007"]
    (tmp_path / "a.csv").write_text("1,2\n3,4\n")  # numbers are no names
    assert told(tmp_path) == [[1, 2], [3, 4]]


def test_a_header_that_the_model_does_not_fit_is_refused_by_name_before_anything(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("height,width\n1,2\n")
    files = files_in(tmp_path, tmp_path / "none")
    check_columns(files, Shape(("width", "height")))
    with pytest.raises(RefusedError, match=r"a\.csv: It has no column depth"):
        check_columns(files, Shape(("height", "depth")))
    with pytest.raises(RefusedError, match="It has 2 columns, and the model takes 3"):
        check_columns(files, Shape(count=3))
    (tmp_path / "a.csv").write_text("height,height\n1,2\n")
    with pytest.raises(RefusedError, match="two columns are called height"):
        check_columns(files, Shape())


def test_a_quote_that_is_left_open_takes_no_memory_and_hides_nothing_before_it(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(batch_input, "MOST_LINE", 10_000)
    (tmp_path / "a.csv").write_text('a,b\n1,2\n"open,' + "x,\n" * 20_000)
    found = told(tmp_path)
    assert found[0] == {"a": 1, "b": 2}
    assert "is a quote left open?" in str(found[1])


def test_csv_of_other_letters_is_refused_with_what_it_is_and_read_where_that_is_said(
    tmp_path,
) -> None:
    table = '品名,数\n"林檎、\n青",3\n蜜柑,\n'
    (tmp_path / "a.csv").write_bytes(table.encode("cp932"))
    files = files_in(tmp_path, tmp_path / "none")
    with pytest.raises(RefusedError, match=r"a\.csv is not UTF-8; it reads as Shift-JIS: .*cp932"):
        check_columns(files, Shape())
    japanese = Shape(encoding="cp932")
    check_columns(files, japanese)
    rows = [{"品名": "林檎、\n青", "数": 3}, {"品名": "蜜柑", "数": None}]
    assert told(tmp_path, japanese) == rows
    middle = read(tmp_path, japanese)[0].after
    assert [json.loads(one.body) for one in read(tmp_path, japanese, middle)] == rows[1:]
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + table.encode())  # as Excel writes UTF-8
    check_columns(files, Shape())
    assert told(tmp_path) == rows
    with pytest.raises(RefusedError, match=r"is not Shift-JIS; it reads as UTF-8"):
        check_columns(files, japanese)
    (tmp_path / "a.csv").write_bytes(table.encode("utf-16"))
    with pytest.raises(RefusedError, match="is UTF-16"):
        check_columns(files, Shape())


def test_one_row_of_other_letters_is_an_error_of_its_own(tmp_path) -> None:
    rows = [f"{n},x\n".encode() for n in range(2000)]
    rows[7] = b"\x93\xfa,x\n"
    (tmp_path / "a.csv").write_bytes(b"n,t\n" + b"".join(rows))
    check_columns(files_in(tmp_path, tmp_path / "none"), Shape())
    found = told(tmp_path)
    assert found[7] == "The row is not UTF-8."
    assert len(found) == 2000


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".jsonl.gz", ".csv.gz"])
def test_how_much_is_read_goes_by_the_bytes_that_a_file_has_on_the_disk(tmp_path, ending) -> None:
    """A packed one has a tenth of the bytes that its lines have: it was whole after that tenth."""
    text = b"".join(b"%d%s\n" % (n * 7919, b"0" * 60) for n in range(20_000))
    path = tmp_path / f"a{ending}"
    path.write_bytes(gzip.compress(text) if ending.endswith(".gz") else text)
    line = b"1" * 60 + b"\n"
    (tmp_path / "b.jsonl").write_bytes(line * (path.stat().st_size // len(line)))
    sizes = [one.stat().st_size for one in files_in(tmp_path, tmp_path / "none")]
    all_of_it = list(chunks(iter(read(tmp_path)), 200))
    of_first = [one for one in all_of_it if one.after.file == 0]
    middle = of_first[len(of_first) // 2]
    assert share_of(middle, sizes) == pytest.approx(0.25, abs=0.05)
    assert share_of(of_first[-2], sizes) == pytest.approx(0.5, abs=0.05)
    assert share_of(all_of_it[-1], sizes) == MOST_SHARE  # 1 says that it is over


def test_rows_of_parquet_are_counted_as_rows(tmp_path, monkeypatch) -> None:
    """Of pyarrow no more than what is asked of it: it is in no environment of the portal's own."""

    class Table:
        schema_arrow = SimpleNamespace(names=["n"])
        metadata = SimpleNamespace(
            num_rows=1000, num_row_groups=1, row_group=lambda _n: SimpleNamespace(num_rows=1000)
        )

        def iter_batches(self, **_how: object) -> list[object]:
            return [SimpleNamespace(columns=[SimpleNamespace(to_pylist=lambda: list(range(1000)))])]

    monkeypatch.setattr(batch_input, "_parquet", lambda _path: Table())
    (tmp_path / "a.parquet").write_bytes(b"x" * 100_000)
    found = list(chunks(iter(read(tmp_path)), 100))
    assert share_of(found[4], [100_000]) == 0.5


def test_only_what_is_in_the_errors_of_another_one_is_read(tmp_path) -> None:
    folder, errors = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    errors.mkdir()
    (folder / "a.jsonl").write_text("".join(f"{n}\n" for n in range(9)))
    (folder / "b.jsonl").write_text("".join(f"{n}\n" for n in range(9)))
    for name, places in (("00-of-02", ["a3", "b1"]), ("01-of-02", ["a1", "a3", "b8"])):
        lines = [json.dumps({"file": f"{p[0]}.jsonl", "line": int(p[1])}) for p in places]
        (errors / f"errors-{name}.jsonl").write_text("\n".join(lines))

    def tried(at: Place = Place()) -> list[str]:  # noqa: B008 - frozen
        files = files_in(folder, errors)
        names = [path.name for path in files]
        found = batch_input.only(records(files, names, at, Shape()), errors, names)
        return [f"{one.file[0]}{one.line}" for one in found]

    assert tried() == ["a1", "a3", "b1", "b8"]
    assert tried(Place(0, 2, 4)) == ["a3", "b1", "b8"]  # it goes on where it was
    (errors / "errors-00-of-02.jsonl").write_text('{"file": "c.jsonl", "line": 1}')
    with pytest.raises(RefusedError, match="of another input"):
        tried()
    with pytest.raises(RefusedError, match="no errors"):
        list(batch_input.only(iter(()), folder, []))


VALUES = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.text(max_size=3)),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=2), one, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(VALUES, max_size=6))
def test_values_of_any_kinds_have_one_type_that_loses_none_of_them(values) -> None:
    kind: batch_parquet.Kind = None
    for value in values:
        kind = batch_parquet.joined(kind, batch_parquet.kind_of(value))
    for value in values:
        again = batch_parquet.joined(kind, batch_parquet.kind_of(value))
        assert again == kind  # it has room for each
        made = batch_parquet.fitted(value, kind)
        if kind == "json" and value is not None:
            assert json.loads(made) == value
        elif kind in ("int", "float", "bool", "text") and value is not None:
            assert made == value


def test_empty_files_and_others_are_no_instances_and_links_are_not_followed(tmp_path) -> None:
    folder, kept = tmp_path / "in", tmp_path / "kept"
    folder.mkdir()
    kept.mkdir()
    for name in ("a.jsonl", "b.csv", "c.parquet"):
        (folder / name).touch()
    (tmp_path / "secret.jsonl").write_text("1\n")
    (folder / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (folder / ".hidden.jsonl").write_text("2\n")
    check_columns(files_in(folder, folder / "none"), Shape(count=3))
    assert told(folder) == []
    (tmp_path / "notes.txt").touch()
    for nothing in (tmp_path / "notes.txt", kept):
        with pytest.raises(RefusedError, match=r"no file that ends in \.jsonl"):
            files_in(nothing, folder)


def test_what_is_packed_is_read_the_same(tmp_path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"[1]\n[2]\n"))
    (one, two) = read(tmp_path)
    assert [one.body, two.body] == [b"[1]", b"[2]"]
    assert read(tmp_path, at=one.after) == [two]


def test_what_the_model_says_that_it_takes_shapes_the_rows() -> None:
    named = {"name": "input", "shape": [-1, 3], "parameters": {"columns": ["a", "b", "c"]}}
    assert shape_of([named]) == Shape(("a", "b", "c"), 3)
    assert shape_of([{"name": "x", "shape": [-1, 3]}]) == Shape(count=3)
    assert shape_of([{"name": "text", "shape": [-1]}]) == Shape(count=1, is_single=True)
    assert shape_of([{"name": "x"}, {"name": "y"}]) == Shape(("x", "y"))
    assert shape_of([]) == Shape()


LINES = st.lists(
    st.sampled_from(["[1, 2]", "", "{", '"日本"', "[3]\r", '"a,b"', "x" * 90]), max_size=30
)


@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(
    files=st.lists(st.tuples(st.sampled_from([".jsonl", ".csv"]), LINES), min_size=1, max_size=4),
    most=st.integers(1, 5),
    shards=st.integers(1, 3),
    killed=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=6),
)
def test_no_instance_is_missing_or_there_twice_whenever_it_is_killed(
    tmp_path_factory, files, most, shards, killed
) -> None:
    """Each shard is killed after some chunks, with or without a commit of the last, and goes on."""
    folder = tmp_path_factory.mktemp("in")
    for number, (ending, lines) in enumerate(files):
        (folder / f"{number}{ending}").write_text("\n".join(lines))
    wanted = [(one.file, one.line, bool(one.problem)) for one in read(folder)]
    paths = files_in(folder, folder / "none")
    names = [path.name for path in paths]
    output, kept = tmp_path_factory.mktemp("out"), tmp_path_factory.mktemp("kept")

    def one_start(shard: int, chunks_taken: int | None, *, commits: bool) -> None:
        results = Results(output, kept, {"shard": [shard, shards], "batch": most})
        at, number = results.progress.place, results.progress.chunk
        for taken, chunk in enumerate(chunks(records(paths, names, at, Shape()), most)):
            if taken == chunks_taken:
                for file in results.open.values():
                    file.flush()  # it was written, and no commit says so
                return
            mine = (number + taken) % shards == shard
            lines = lines_of(chunk) if mine else ([], [])
            results.write(*lines, chunk.after)
            if commits:
                results.commit()
        results.commit(is_done=True)

    def lines_of(chunk: Chunk) -> tuple[list[bytes], list[tuple[bytes, str]]]:
        told = [json.dumps([one.file, one.line, bool(one.problem)]) for one in chunk.records]
        both = list(zip(chunk.records, told, strict=True))
        good = [f"{text}\n".encode() for one, text in both if not one.problem]
        return good, [(f"{text}\n".encode(), one.problem) for one, text in both if one.problem]

    for shard in range(shards):
        for chunks_taken, commits in killed:
            one_start(shard, chunks_taken, commits=commits)
        one_start(shard, None, commits=False)
    found = [
        tuple(json.loads(line))
        for path in output.glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert sorted(found) == sorted(wanted)


def test_another_run_takes_over_what_was_written_elsewhere_and_a_changed_input_begins_anew(
    tmp_path,
) -> None:
    kept, one, two = tmp_path / "kept", tmp_path / "1", tmp_path / "2"
    for folder in (kept, one, two):
        folder.mkdir()
    about = {"shard": [0, 1], "input": "v1"}
    first = Results(one, kept, about)
    first.write([b"a\n"], [(b"b\n", "why 1")], Place(0, 1, 2))
    first.commit()
    first.write([], [(b"lost\n", "why 2")], Place(0, 2, 4))
    second = Results(two, kept, about)
    assert (two / "predictions-00000.jsonl").read_bytes() == b"a\n"
    assert (second.progress.place, second.progress.predicted) == (Place(0, 1, 2), 1)
    assert second.whole().reasons == [("why 1", 1)]
    anew = Results(two, kept, {**about, "input": "v2"})
    assert (anew.progress.place, (two / "predictions-00000.jsonl").read_bytes()) == (Place(), b"")


def test_errors_are_counted_by_why_without_what_they_quote_and_of_all_replicas(tmp_path) -> None:
    all_of_them = [Results(tmp_path, tmp_path, {"shard": [n, 2], "input": "v1"}) for n in (0, 1)]
    problems = [f"The row has {n} columns; the model takes 4." for n in (3, 3, 5)]
    problems += ["It can't be: could not convert string to float: 'Conor O'Brien'"]
    for results in all_of_them:
        results.write([], [(b"{}\n", one) for one in problems], Place())
        results.commit()
    assert all_of_them[0].whole().reasons == [
        ("The row has 3 columns; the model takes 4.", 6),
        ("It can't be: could not convert string to float: …", 2),
    ]
    many = [(b"{}\n", f"{'x' * n} is no number") for n in range(1, 40)]
    all_of_them[0].write([], many, Place())
    found = all_of_them[0].progress.reasons
    assert (len(found), found[""], sum(found.values())) == (21, 21, 43)
    assert len(reason_of("no number " * 50)) == 160
    for said, kept in (
        ("""no float: "the dogs' bowl, patient Sato" at 3""", "no float: … at 3"),
        ("no float: 'patient Sato, born 1955, pat", "no float: …"),  # it was cut
        ("half of one: \ud83d\x00", "half of one: ??"),
    ):
        assert reason_of(said) == kept


def test_the_output_is_no_link_to_elsewhere(tmp_path) -> None:
    target = tmp_path / "precious"
    target.write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "errors.jsonl").symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        Results(tmp_path / "out", tmp_path, {"shard": [0, 1]})
    assert target.read_text() == "mine"
