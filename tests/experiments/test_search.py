"""Choosing values, and reading what a trial said: pure."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import pytest

from common.errors import Invalid
from experiments.rules import filled, numbers_said, require_parameters, require_used
from experiments.search import Tried, ask, lags

LR = {"name": "lr", "type": "double", "min": 0.001, "max": 1.0, "log": True}
LAYERS = {"name": "layers", "type": "int", "min": 1, "max": 3}
KIND = {"name": "kind", "type": "categorical", "values": ["adam", "sgd"]}
HOW: dict[str, Any] = {"maximizes": True, "seed": 7}


@pytest.mark.parametrize("algorithm", ["random", "tpe"])
def test_the_same_rows_give_the_same_values_within_their_bounds(algorithm: str) -> None:
    said = {"parameters": [LR, LAYERS, KIND], "algorithm": algorithm, **HOW}
    tried: list[Tried] = []
    for n in range(8):
        values = ask(**said, tried=tried)
        assert values == ask(**said, tried=tried)
        assert values is not None
        assert 0.001 <= values["lr"] <= 1.0
        assert values["layers"] in {1, 2, 3}
        assert values["kind"] in {"adam", "sgd"}
        tried.append(Tried(values, value=None if n % 3 == 0 else values["lr"], runs=n == 7))
    assert len({one.parameters["lr"] for one in tried}) == 8


def test_the_parzen_estimator_goes_where_it_is_good() -> None:
    x = {"name": "x", "type": "double", "min": -10.0, "max": 10.0}

    def late(algorithm: str) -> float:
        """Return how far off the later half of forty trials is."""
        tried: list[Tried] = []
        for _ in range(40):
            values = ask(parameters=[x], algorithm=algorithm, maximizes=False, seed=1, tried=tried)
            assert values is not None
            tried.append(Tried(values, (values["x"] - 3) ** 2))
        return median(abs(one.parameters["x"] - 3) for one in tried[20:])

    assert late("tpe") < 0.75 * late("random")


def test_a_grid_has_every_combination_once_and_ends() -> None:
    tried: list[Tried] = []
    while values := ask(parameters=[LAYERS, KIND], algorithm="grid", **HOW, tried=tried):
        tried.append(Tried(values, 1.0))
    assert len({tuple(one.parameters.items()) for one in tried}) == len(tried) == 6


def test_what_is_printed_is_read_as_katib_reads_it() -> None:
    text = "epoch=1 accuracy=0.5 val-accuracy=0.9\naccuracy = 7e-1\naccuracy=nan\nxaccuracy=3\n"
    assert numbers_said(text, "accuracy") == [0.5, 0.7]


def test_who_lags_behind_the_median_is_ended_early() -> None:
    others = [[0.5] * 6, [0.6] * 6, [0.7] * 6]
    assert lags([0.1] * 4, others, maximizes=True)
    assert not lags([0.1] * 4, others, maximizes=False)
    assert not lags([0.1] * 3, others, maximizes=True)
    assert not lags([0.1] * 4, others[:2], maximizes=True)


@pytest.mark.parametrize(
    "bad",
    [
        {**LR, "min": 0.0},
        {**LR, "min": 2.0},
        {**LR, "name": "1x"},
        {**LAYERS, "max": 2.5},
        {**KIND, "values": []},
        {"name": "x", "type": "double", "min": 0.0},
        {"name": "x", "type": "double", "min": 0.0, "max": float("inf")},
    ],
)
def test_a_parameter_that_makes_no_sense_is_refused_by_name(bad: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match=str(bad["name"])):
        require_parameters([bad], "tpe")


def test_a_value_goes_where_its_place_is_and_nowhere_else() -> None:
    template = {"args": ["--lr=${trialParameters.lr}", "$HOME"], "env": {"A": "b"}}
    require_used(template, ["lr"])
    said = filled(template, {"lr": 0.5}, 1)
    assert said == {"args": ["--lr=0.5", "$HOME"], "env": {"A": "b"}}
    with pytest.raises(Invalid, match="other"):
        require_used(template, ["lr", "other"])
    with pytest.raises(Invalid, match="lr"):
        require_used(template, [])


def test_the_number_of_a_trial_goes_where_its_place_is_but_not_into_values() -> None:
    template = {"output": "gs://team/x/${trial.number}", "args": ["${trialParameters.w}"]}
    said = filled(template, {"w": "${trial.number}"}, 7)
    assert said == {"output": "gs://team/x/7", "args": ["${trial.number}"]}


def test_a_line_of_a_million_digits_holds_nobody_up() -> None:
    began = time.process_time()
    for line in ("loss=" + "1" * 1_000_000 + "x", "loss=" * 200_000, "loss" + " " * 1_000_000):
        assert numbers_said(line, "loss") == []
    assert time.process_time() - began < 2
    assert numbers_said("loss=1e308\nloss=-1e101\nloss = 0.5", "loss") == [0.5]


def test_one_that_has_said_nothing_yet_does_not_lag() -> None:
    assert not lags([], [[0.5], [0.6], [0.7]], maximizes=True)
