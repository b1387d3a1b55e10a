"""Work says which installation made it, over the supervisor's own end, and another one leaves it."""

import pytest

from runtime.drivers.local.driver import LocalDriver
from runtime.protocol import DriverError
from tests.drivers.local.harness import NoGpus

pytestmark = pytest.mark.real
OURS, THEIRS = "0b6a4c1e-0000-4000-8000-0000000000aa", "0b6a4c1e-0000-4000-8000-0000000000bb"


def driver_of(supervisor, installation):
    return LocalDriver(supervisor.socket, gpus=NoGpus(), installation=installation)


def whose(supervisor):
    return {o.uid: o.installation for o in supervisor.driver.list_owned()}


def test_anothers_work_is_told_and_left(ordinary):
    spec = ordinary.shell("sleep 60")
    driver_of(ordinary, THEIRS).ensure(spec)
    ordinary.restart()
    assert whose(ordinary) == {spec.uid: THEIRS}
    with pytest.raises(DriverError, match="made by another Berth"):
        driver_of(ordinary, OURS).remove(spec.uid)
    assert whose(ordinary) == {spec.uid: THEIRS}


def test_work_of_before_there_were_marks_gets_ours_and_keeps_it(ordinary):
    spec = ordinary.shell("sleep 60")
    ordinary.ready(spec)
    driver_of(ordinary, OURS).adopt(spec.uid)
    driver_of(ordinary, THEIRS).adopt(spec.uid)
    assert whose(ordinary) == {spec.uid: OURS}
    ordinary.restart()
    assert whose(ordinary) == {spec.uid: OURS}
