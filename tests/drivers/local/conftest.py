from collections.abc import Callable, Iterator

import pytest

from tests.drivers.local.harness import IS_ROOT, MODES, Supervisor


@pytest.fixture(params=MODES)
def supervisor(request: pytest.FixtureRequest) -> Iterator[Supervisor]:
    """A running supervisor, as an ordinary user and as root."""
    yield from running(request.param)


@pytest.fixture
def ordinary() -> Iterator[Supervisor]:
    yield from running("ordinary")


@pytest.fixture
def rooted() -> Iterator[Supervisor]:
    yield from running("root")


def running(mode: str) -> Iterator[Supervisor]:
    if mode == "root" and not IS_ROOT:
        pytest.skip("needs root")
    supervisor = Supervisor(mode).start()
    yield supervisor
    supervisor.close()


@pytest.fixture
def make_supervisor() -> Iterator[Callable[..., Supervisor]]:
    made: list[Supervisor] = []

    def make(mode: str, **options: str) -> Supervisor:
        if mode == "root" and not IS_ROOT:
            pytest.skip("needs root")
        made.append(Supervisor(mode).start(**options))
        return made[-1]

    yield make
    for supervisor in made:
        supervisor.close()
