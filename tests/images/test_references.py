"""Names of images are read strictly and spelled in one way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.oci import BadReference, parse_reference

SHA = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("python", "docker.io/library/python:latest"),
        ("python:3.11-slim", "docker.io/library/python:3.11-slim"),
        ("jupyter/base-notebook", "docker.io/jupyter/base-notebook:latest"),
        ("docker.io/python", "docker.io/library/python:latest"),
        ("index.docker.io/a/b:1", "docker.io/a/b:1"),
        ("ghcr.io/Team/x", None),
        ("GHCR.io/team/x", "ghcr.io/team/x:latest"),
        ("localhost/x", "localhost/x:latest"),
        ("localhost:5000/x", "localhost:5000/x:latest"),
        ("127.0.0.1:5000/berth/echo:1", "127.0.0.1:5000/berth/echo:1"),
        ("[::1]:5000/x:1", "[::1]:5000/x:1"),
        (f"ghcr.io/a/b/c@{SHA}", f"ghcr.io/a/b/c@{SHA}"),
        (f"ghcr.io/a/b:1@{SHA}", f"ghcr.io/a/b:1@{SHA}"),
        ("nvcr.io:443/a/b", "nvcr.io/a/b:latest"),
        ("a__b/c.d-e/f--g:X_1.y", "docker.io/a__b/c.d-e/f--g:X_1.y"),
    ],
)
def test_a_name_has_one_spelling(text: str, whole: str | None) -> None:
    if whole is None:
        with pytest.raises(BadReference):
            parse_reference(text)
    else:
        assert str(parse_reference(text)) == whole
        assert str(parse_reference(whole)) == whole


@pytest.mark.parametrize(
    "text",
    [
        "",
        " python",
        "python ",
        "py thon",
        "python\n",
        "python\x00",
        "../python",
        "a/../b",
        "a//b",
        "/a",
        "a/",
        "a:",
        "a:-1",
        "a:" + "x" * 129,
        "a@",
        "a@sha256:abc",
        "a@sha512:" + "ab" * 64,
        f"a@{SHA.upper()}",
        f"a@{SHA}@{SHA}",
        "https://ghcr.io/a/b",
        "user@ghcr.io/a/b",
        "2130706433.1/a/b",
        "0x7f.1/a",
        "ghcr.io:99999/a",
        "-a/b",
        "a_/b",
        "a.-b",
        "--privileged",
        "a b/c",
        "x" * 513,
        "ｐython",  # noqa: RUF001 - a letter that looks like another
    ],
)
def test_c9_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(BadReference):
        parse_reference(text)


@given(st.text(max_size=80))
def test_whatever_is_typed_is_refused_or_has_one_spelling(text: str) -> None:
    try:
        name = parse_reference(text)
    except BadReference:
        return
    assert parse_reference(str(name)) == name
