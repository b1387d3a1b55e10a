"""What is read of the API server's JSON, and what is passed over."""

import gc
import json

import msgspec
import pytest

from runtime.drivers.kubernetes import answers

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "ws-a-0",
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": None,
        "labels": {"a": "b"},
        "ownerReferences": [{"kind": "StatefulSet"}],
    },
    "spec": {"nodeName": "n", "containers": [{"name": "main"}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}
WITH_MANAGERS = {
    **POD,
    "metadata": {**POD["metadata"], "managedFields": [{"manager": "kubelet"}]},
}


def test_an_object_comes_whole_but_for_who_wrote_which_field() -> None:
    page = json.dumps({"metadata": {"continue": "x"}, "items": [WITH_MANAGERS]}).encode()
    assert answers.page_of(page, "pods") == {"metadata": {"continue": "x"}, "items": [POD]}
    line = json.dumps({"type": "ADDED", "object": WITH_MANAGERS}).encode()
    assert answers.event_of(line, "pods") == {"type": "ADDED", "object": POD}


def test_an_error_in_the_place_of_an_object_keeps_its_words() -> None:
    said = {"kind": "Status", "metadata": {}, "code": 410, "reason": "Expired", "message": "old"}
    line = json.dumps({"type": "ERROR", "object": said}).encode()
    assert answers.event_of(line, "pods")["object"] == said


def test_other_kinds_come_as_they_are() -> None:
    event = {"type": "ADDED", "object": {"reason": "x", "involvedObject": {"name": "p"}}}
    assert answers.event_of(json.dumps(event).encode(), "events") == event


def test_what_has_another_shape_than_promised_is_left_to_who_reads_it() -> None:
    odd = {"items": [{"metadata": "none"}]}
    assert answers.page_of(json.dumps(odd).encode(), "pods") == odd


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_the_collector_waits_for_a_large_body_and_is_as_before_afterwards(
    monkeypatch: pytest.MonkeyPatch, *, collects: bool, whole: bool
) -> None:
    monkeypatch.setattr(answers, "_LARGE", 10)
    body = json.dumps({"items": [POD]}).encode()
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        if whole:
            answers.page_of(body, "pods")
        else:
            with pytest.raises(msgspec.DecodeError):
                answers.page_of(body[:-5], "pods")
        assert gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()
