"""Searches in every state, for the pictures (tools/screen_data.py)."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from common.clock import now
from experiments.models import Experiment, Trial

if TYPE_CHECKING:
    from accounts.models import User
    from jobs.models import Job
    from projects.models import Project

_LR = {"name": "learning_rate", "type": "double", "min": 1e-5, "max": 0.1, "log": True}
_EIGHT: list[dict[str, Any]] = [
    _LR,
    {"name": "weight_decay", "type": "double", "min": 0, "max": 0.3},
    {"name": "layers", "type": "int", "min": 2, "max": 24},
    {"name": "heads", "type": "int", "min": 1, "max": 16},
    {"name": "optimizer", "type": "categorical", "values": ["adamw", "lion", "sgd"]},
    {"name": "dropout", "type": "double", "min": 0, "max": 0.5},
    {"name": "warmup_steps", "type": "int", "min": 0, "max": 2000},
    {"name": "label_smoothing", "type": "double", "min": 0, "max": 0.2},
]
_ENDS = ("succeeded",) * 7 + ("early-stopped",) * 2 + ("failed",)


def make(project: Project, owner: User, job: Job) -> dict[str, Experiment]:
    """Make one that just began, one that runs, one of 200 trials, one that failed or waits."""
    chance = random.Random(7)

    def one(name: str, states: list[str], **columns: Any) -> Experiment:
        values: dict[str, Any] = {
            "metric": "validation_accuracy",
            "objective": "maximize",
            "algorithm": "tpe",
            "parameters": [_LR, _EIGHT[2]],
            "trials_max": 20,
            "parallel": 3,
            "failed_max": 3,
            "seed": 1,
            "gpu_hours": 64,
            "sealed": {"job": json.dumps({"command": ["python", "train.py"]})},
            **columns,
        }
        row = Experiment.objects.create(project=project, owner=owner, name=name, **values)
        for number, state in enumerate(states, 1):
            rate = chance.random()
            most = 0.93 - abs(rate - 0.6) * 0.4
            said = 3 if state == "early-stopped" else 12 if state == "succeeded" else 6
            curve = [most * (1 - 0.6 ** (n + 1)) for n in range(said)]
            Trial.objects.create(
                experiment=row,
                number=number,
                state=state,
                parameters={one["name"]: _value(one, rate, chance) for one in row.parameters},
                job=job,
                value=None if state == "failed" else max(curve),
                curve=[] if state == "failed" else curve,
                gpu_seconds=chance.randint(400, 4000),
                ended_at=None if state == "running" else now(),
            )
        return row

    many = [_ENDS[n % len(_ENDS)] for n in range(197)] + ["running"] * 3
    over = {"state": "failed", "reason": "too-many-failed", "ended_at": now()}
    away = "Katib does not answer, and the search waits: connection refused"
    return {
        "none": one("resnet-first-try", []),
        "running": one("resnet-rates", ["succeeded", "running", "running", "running"]),
        "many": one("transformer-all", many, parameters=_EIGHT, trials_max=300, goal=0.95,
                    early_stopping=True),
        "failed": one("typo", ["failed"] * 4, failed_max=3, **over),
        "away": one("on-the-cluster", ["succeeded"], engine="katib", cluster_key="kube-1",
                    message=away),
    }  # fmt: skip


def _value(one: dict[str, Any], rate: float, chance: random.Random) -> Any:
    if one["type"] == "categorical":
        return chance.choice(one["values"])
    if one.get("log"):
        return one["min"] * (one["max"] / one["min"]) ** rate
    found = one["min"] + chance.random() * (one["max"] - one["min"])
    return round(found) if one["type"] == "int" else found


ACTS = {
    "search-new-wrong": (("press", ".card-footer .btn-primary"),),
    "search-new-planned": (
        ("type", "#id_name", "rates"),
        ("type", "#id_metric", "loss"),
        ("press", "[name=add]"),
        ("press", ".card-footer [name=plan]"),
    ),
}


def pages(project: Project, rows: dict[str, Experiment]) -> list[tuple[str, str, str]]:
    here = f"/projects/{project.slug}/experiments/"
    return [
        ("alice", "searches", here),
        ("alice", "searches-none", "/projects/speech/experiments/"),
        ("alice", "search-new", f"{here}new"),
        ("alice", "search-new-document", f"{here}new?document"),
        *(("alice", name, f"{here}new") for name in ACTS),
        *(("alice", f"search-{name}", row.get_absolute_url()) for name, row in rows.items()),
        ("mona", "search-of-others", rows["many"].get_absolute_url()),
    ]
