"""Traces of others are read by the names of their columns, and all lines do the same work."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.replay import guaranteed, in_line, shared
from benchmarks.traces import CAPACITY, SAMPLE, TraceJob, read, sample

PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
pod-1,6000,12288,1,1000,V100M16|V100M32,LS,Running,900,1960,960
pod-0,4000,8192,2,1000,,BE,Succeeded,600,1200,660.0
pod-2,4000,8192,0,0,,BE,Succeeded,600,1200,660
pod-3,4000,8192,1,500,,BE,Pending,700,1200,
"""
LOG = """\
jobid,vc,user,status,submitted_time,start_time,end_time,num_gpus
a,one,u,Pass,2017-10-09 07:02:37,2017-10-09 07:03:37,2017-10-09 08:03:37,4
b,two,u,Killed,2017-10-09 07:02:00,None,None,1
c,two,u,Pass,2017-10-09 07:01:37,2017-10-09 07:03:37,2017-10-09 07:04:07,1
"""


def read_text(folder: Path, text: str) -> list[TraceJob]:
    path = folder / "trace.csv"
    path.write_text(text)
    return read(path)


def test_a_list_of_pods_says_kinds_that_can_stand_for_each_other(tmp_path: Path) -> None:
    assert read_text(tmp_path, PODS) == [
        TraceJob(0, 540, 2, (), "BE"),
        TraceJob(300, 1000, 1, ("V100M16", "V100M32"), "LS"),
    ]


def test_a_log_of_jobs_says_when_they_were_submitted_started_and_over(tmp_path: Path) -> None:
    assert read_text(tmp_path, LOG) == [
        TraceJob(0, 30, 1, (), "two"),
        TraceJob(60, 3600, 4, (), "one"),
    ]


def test_what_no_column_says_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no column says: gpus, duration \(or start and end\)"):
        read_text(tmp_path, "tenant,submit\na,1\n")


def test_the_sample_is_what_its_generator_makes() -> None:
    assert read(SAMPLE) == [
        TraceJob(j.submit_s - sample()[0].submit_s, j.duration_s, j.gpus, j.kinds, j.tenant)
        for j in sample()
    ]


def test_apart_gpus_are_held_idle_that_are_lent_where_they_are_shared() -> None:
    """Two GPUs, one of each tenant; b is not there: a's second job waits for its first, or not."""
    jobs = [TraceJob(0, 100, 1, ("x",), "a"), TraceJob(0, 100, 1, ("x",), "a")]
    jobs.append(TraceJob(300, 100, 1, ("x",), "b"))
    has = guaranteed(jobs, {"x": 2})
    assert has == {"a": {"x": 1}, "b": {"x": 1}}
    ours, apart = shared(jobs, {"x": 2}), in_line(jobs, {"x": 2}, has)
    assert ours.waited == {0: 0, 1: 0, 2: 0}
    assert apart.waited == {0: 0, 1: 100, 2: 0}
    assert (ours.used_s, apart.used_s) == (300, 300)
    assert (ours.held_idle_s, apart.held_idle_s) == (0, 100)
    assert apart.jain < ours.jain == 1


def test_who_is_guaranteed_gets_it_back_and_who_gave_back_does_all_its_work() -> None:
    jobs = [TraceJob(0, 100, 1, ("x",), "a"), TraceJob(0, 100, 1, ("x",), "a")]
    jobs.append(TraceJob(50, 100, 1, ("x",), "b"))
    ours = shared(jobs, {"x": 2})
    assert (ours.waited[2], ours.reclaims, ours.used_s, ours.ended_s) == (0, 1, 300, 150)


def test_the_whole_sample_is_worked_off_by_each() -> None:
    jobs = read(SAMPLE)
    has = guaranteed(jobs, CAPACITY)
    played = (shared(jobs, CAPACITY), in_line(jobs, CAPACITY, has), in_line(jobs, CAPACITY, {}))
    assert {len(one.waited) for one in played} == {len(jobs)}
    assert len({round(one.used_s) for one in played}) == 1
