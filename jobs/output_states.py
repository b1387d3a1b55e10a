"""What a run left and how far its copy is, as people read it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from django.utils.translation import gettext as _

from accounts.principal import Principal
from common.errors import Conflict
from files.below import Below, files_below
from jobs.choices import OutputState
from jobs.models import Run
from loaders.choices import Result
from loaders.states import SETTLED, state_of
from loaders.words import message_of, percent_of


@dataclass(frozen=True)
class Output:
    """What a run left. ``named``: path and size of its files, not all where ``more``."""

    run: Run
    state: OutputState
    sentence: str = ""
    percent: int | None = None
    files: int = 0
    bytes: int = 0
    named: list[tuple[str, int]] = field(default_factory=list)

    @property
    def more(self) -> int:
        return max(0, self.files - len(self.named))

    @property
    def moves(self) -> bool:
        return self.state in {OutputState.WAITING, OutputState.COPYING}

    @property
    def is_here(self) -> bool:
        """Whether its folder can be looked into."""
        return self.run.output_volume is not None and self.run.output_cleared_at is None

    @property
    def is_copied_again(self) -> bool:
        """Whether a press on "try again" makes sense."""
        return self.state in {OutputState.PARTIAL, OutputState.FAILED} and self.is_here


_OF_RESULT = {Result.DONE: OutputState.COMPLETE, Result.PARTIAL: OutputState.PARTIAL}


def output_of(run: Run) -> Output:
    """Return what a run left and how far its copy is."""
    if (
        state_of_output(run) == OutputState.FAILED and not run.output_how
    ):  # its load ended since it was read
        run.refresh_from_db(fields=("output_how", "output_told", "output_note"))
    told = run.output_told or {}
    output = Output(
        run,
        state_of_output(run),
        files=told.get("files", 0),
        bytes=told.get("bytes", 0),
        named=[(str(path), int(size)) for path, size in told.get("named", ())],
    )
    load = run.output_load
    if output.state == OutputState.COPYING and load is not None:
        done = load.files_done + load.files_unchanged
        counted = replace(output, files=done, bytes=load.bytes_done)
        return replace(counted, sentence=message_of(load), percent=percent_of(load))
    if output.state == OutputState.COMPLETE:
        return replace(output, sentence=run.output_note)
    if output.state in {OutputState.WAITING, OutputState.PARTIAL, OutputState.FAILED}:
        said = run.output_note or (message_of(load) if load is not None else "")
        return replace(output, sentence=said)
    return output


def files_of(principal: Principal, run: Run) -> Below:
    """Return what lies in the folder that a run writes to, as it is now; opens its file browser."""
    if run.output_volume is None or not run.output_folder or run.output_cleared_at is not None:
        raise Conflict(_("The folder of this run is not there."), code="no-output")
    return files_below(
        principal=principal,
        project=run.job.project,
        volume_uid=run.output_volume.uid,
        folder=run.output_folder,
    )


def state_of_output(run: Run) -> OutputState:
    if not run.output_folder:
        return OutputState.NONE
    if run.ended_at is None or not run.output_url:
        return OutputState.WRITING if run.ended_at is None else OutputState.KEPT
    if run.output_how:
        return _OF_RESULT.get(Result(run.output_how), OutputState.FAILED)
    if run.output_due_at is not None:
        return OutputState.WAITING
    if run.output_load is None:
        return OutputState.NOTHING
    is_over = state_of(run.output_load) in SETTLED
    return OutputState.FAILED if is_over else OutputState.COPYING
