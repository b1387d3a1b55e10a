"""Reading on in what a trial prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusters.streams import log_read
from experiments.rules import numbers_said

if TYPE_CHECKING:
    from experiments.models import Experiment, Trial
    from jobs.models import Job

READ = 1024 * 1024  # of a log at a time
PARTS = 32  # of such, of a trial that is over, in one turn
CURVE = 1000  # values that are kept of a trial


def read(row: Experiment, trial: Trial, job: Job, *, over: bool) -> bool:
    """Read on in the log of replica 0, whole lines only while more may come.

    False: it is over, and there is more than is read in one turn.
    """
    for _part in range(PARTS if over else 1):
        said, offset, is_anew = b"", trial.log_offset, False
        while len(said) < READ:
            part = log_read(job.cluster_key, str(job.uid), offset=offset)
            if part.next_offset < offset:  # it began anew: another launch, or another pod
                said, offset, is_anew = b"", 0, not over
                continue
            if part.next_offset == offset or not part.data:
                break
            said, offset = said + part.data, part.next_offset
        is_last = over and len(said) < READ
        if not is_last and said and (cut := said.rfind(b"\n") + 1):
            said, offset = said[:cut], offset - (len(said) - cut)
        elif not is_last and len(said) < READ:
            return True  # the line is not whole
        found = numbers_said(said.decode(errors="replace"), row.metric)
        best = max if row.maximizes else min
        if found:
            trial.value = best([*found, *([] if trial.value is None else [trial.value])])
        # What begins anew counts its steps anew: early stopping compares at the same step.
        trial.curve = (found if is_anew else trial.curve + found)[:CURVE]
        trial.log_offset = offset
        if is_last:
            return True
    return not over
