"""An API server of few words for checks: answers by path, and pods that end as a test says."""

from clusters.checks.base import Answer, Subject
from clusters.checks.probe_runner import Bench
from clusters.models import Cluster
from clusters.options import ClusterOptions


class Api:
    """Answers by path; whatever is not known is made or there."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []

    def ask(self, method, path, body=None, params=None):
        self.asked.append((method, path))
        for word, answer in self.answers.items():
            if word in path:
                return answer(body) if callable(answer) else answer
        return Answer(200, {})


def subject(api, **options):
    return Subject(Cluster(key="c", name="C", driver="kubernetes"), ClusterOptions(**options), api)


def bench(api, **options):
    return Bench(api, ClusterOptions(**options), wait_s=0.1)


def ended(code, reason="Error", message=""):
    """A pod whose script has ended."""
    how = {"exitCode": code, "reason": reason, "message": message}
    return Answer(200, {"status": {"containerStatuses": [{"state": {"terminated": how}}]}})


def waiting(reason, message="", image=""):
    """A pod whose container does not start."""
    how = {"waiting": {"reason": reason, "message": message}}
    return Answer(200, {"status": {"containerStatuses": [{"state": how, "image": image}]}})


def listening(address):
    return Answer(200, {"status": {"phase": "Running", "podIP": address}})


def network_of(**codes):
    """Pods of the network check: two listeners, and clients that end with these codes."""
    ends = {name: ended(code) for name, code in codes.items()}
    return Api(**ends, guarded=listening("10.0.0.1"), free=listening("10.0.0.2"))
