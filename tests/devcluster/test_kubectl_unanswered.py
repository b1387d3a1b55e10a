"""The tests' kubectl: run again where nobody answered, and a refusal is what the server says."""

from collections.abc import Iterator
from subprocess import CompletedProcess

import pytest

from tests.cluster.asking import TRIES, Done, answered, is_refused

LATE = "Unable to connect to the server: net/http: TLS handshake timeout"
FORBIDDEN = 'Error from server (Forbidden): secrets is forbidden: User "a" cannot list it'


def ended(code: int, stderr: str = "") -> Done:
    return CompletedProcess(["kubectl"], code, stdout="", stderr=stderr)


def one_by_one(*ends: Done) -> tuple[Done, Iterator[Done]]:
    """What comes of it, and those that were never run."""
    left = iter(ends)
    return answered(lambda: next(left), pause_s=0), left


def test_a_server_that_does_not_answer_is_asked_again() -> None:
    done, left = one_by_one(ended(1, LATE), ended(1, LATE), ended(0), ended(0))
    assert done.returncode == 0
    assert len(list(left)) == 1


@pytest.mark.parametrize("end", [ended(7), ended(1, FORBIDDEN), ended(0, LATE)])
def test_what_was_answered_stands(end: Done) -> None:
    done, left = one_by_one(end, ended(0))
    assert done is end
    assert len(list(left)) == 1


def test_a_server_that_never_answers_is_given_up_and_that_is_no_refusal() -> None:
    done, left = one_by_one(*[ended(1, LATE)] * (TRIES + 1))
    assert len(list(left)) == 1
    assert not is_refused(done)


@pytest.mark.parametrize(
    "said",
    [
        FORBIDDEN,
        "error: You must be logged in to the server (Unauthorized)",
        "error: You must be logged in to the server (the server has asked for the client to provide credentials)",
    ],
)
def test_a_refusal_is_what_the_server_says(said: str) -> None:
    assert is_refused(ended(1, said))
    assert not is_refused(ended(0, said))
    assert not is_refused(ended(1, "Error from server (NotFound): pods not found"))
