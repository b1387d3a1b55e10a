"""The local queue of one machine: who starts, with which GPUs, and who waits."""

from runtime.ports import AdmissionRequest, Granted, Waiting


def admit(request: AdmissionRequest) -> Granted | Waiting:
    del request
    return Granted()


def release(uid: str) -> None:
    del uid
