"""What is kept of an object: enough to judge it, and of a deletion the one that was asked first."""

import pytest

from runtime.drivers.kubernetes.pruning import MESSAGE_MAX, small_event, small_pod

ASKED = {"deletionTimestamp": "2026-11-22T06:00:30Z", "deletionGracePeriodSeconds": 30}
LAST = {"deletionTimestamp": "2026-11-22T06:00:02Z", "deletionGracePeriodSeconds": 0}


def pod(uid="u1", **meta):
    return {"metadata": {"name": "ws-0", "namespace": "ns", "uid": uid, **meta}}


def deletion(small):
    return {name: small["metadata"][name] for name in ASKED if name in small["metadata"]}


def kept(*seen):
    """Return the deletion that is kept of a pod after all these were seen of it."""
    small = None
    for obj in seen:
        small = small_pod(obj, small)
    return deletion(small)


def test_the_kubelets_last_deletion_leaves_the_one_that_was_asked():
    assert kept(pod(), pod(**ASKED), pod(**LAST)) == ASKED


def test_and_so_does_whatever_comes_after_it():
    assert kept(pod(), pod(**ASKED), pod(**LAST), pod(**LAST)) == ASKED


def test_a_later_one_with_less_grace_counts():
    sooner = {"deletionTimestamp": "2026-11-22T06:00:05Z", "deletionGracePeriodSeconds": 3}
    assert kept(pod(**ASKED), pod(**sooner)) == sooner


@pytest.mark.parametrize("before", [(), (pod(),)])
def test_one_that_was_asked_without_grace_is_the_first(before):
    assert kept(*before, pod(**LAST)) == LAST


def test_another_pod_of_the_same_name_inherits_none():
    assert kept(pod(**ASKED), pod("u2")) == {}
    assert kept(pod(**ASKED), pod("u2", **LAST)) == LAST


def test_a_pod_that_nobody_deletes_has_none():
    assert kept(pod(), pod()) == {}


def test_c11_a_message_of_any_length_is_kept_within_bounds():
    event = {"metadata": {}, "message": "failed to pull " + "x" * 1_000_000}
    kept = small_event(event)["message"]
    assert len(kept) == MESSAGE_MAX
    assert kept.startswith("failed to pull ")
