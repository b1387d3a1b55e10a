"""Models of rows with numbered or named columns: scikit-learn, XGBoost, LightGBM."""

from __future__ import annotations

import importlib
import json
import re
import sys
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .files import RefusedError
from .models import (
    ANY,
    TYPES,
    Arrays,
    Model,
    Tensor,
    WrongInputError,
    check_shape,
    datatype_of,
    only,
    refuse_newer,
    texts,
)


class Table(Model):
    """A model of rows with numbered or named columns: all in one tensor, or one for each column."""

    def __init__(self, count: int, columns: Sequence[str], datatype: str = "FP64") -> None:
        self.columns = tuple(columns)
        self.inputs = [Tensor("input", datatype, (ANY, count), self.columns)]

    def from_instances(self, instances: list[Any]) -> Arrays:
        """Rows are lists in the order of the columns, or objects with their names."""
        if self.columns and instances and all(isinstance(row, dict) for row in instances):
            for number, row in enumerate(instances):
                if lacks := [name for name in self.columns if name not in row]:
                    raise WrongInputError(f"Instance {number} has no value for {lacks[0]}.")
            return {name: np.array([row[name] for row in instances]) for name in self.columns}
        return super().from_instances(instances)

    def rows(self, given: Arrays) -> Any:
        """Return ``given`` as one matrix; its input may have any name."""
        if len(given) == 1 and len(self.columns) != 1:
            made = next(iter(given.values()))
        else:
            made = np.column_stack([given[name] for name in self.named(given)])
        check_shape(made.shape, self.inputs[0])
        try:
            return made.astype(TYPES[self.inputs[0].datatype], copy=False)
        except (ValueError, TypeError) as problem:
            raise WrongInputError("The model takes numbers only.") from problem

    def named(self, given: Arrays) -> Sequence[str]:
        """Return the columns, where each is given."""
        if missing := [name for name in self.columns if name not in given]:
            raise WrongInputError(f"There is no input {missing[0]}.")
        return self.columns or list(given)


class SklearnModel(Table):
    """A pickled estimator. To open it runs what is in it."""

    def __init__(self, path: Path, threads: int) -> None:
        import joblib
        import sklearn
        from sklearn.exceptions import InconsistentVersionWarning

        del threads  # estimators say themselves how many they use
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", InconsistentVersionWarning)
            self.estimator = joblib.load(path)
        if not any(hasattr(self.estimator, name) for name in ("predict", "transform")):
            kind = type(self.estimator).__name__
            raise RefusedError(f"{path.name} holds a {kind}, which predicts nothing.")
        versions = [w.message for w in said if isinstance(w.message, InconsistentVersionWarning)]
        self.made_with = versions[0].original_sklearn_version if versions else sklearn.__version__
        refuse_newer(path, "scikit-learn", self.made_with, sklearn.__version__)
        count = getattr(self.estimator, "n_features_in_", None)
        columns = [str(name) for name in getattr(self.estimator, "feature_names_in_", ())]
        super().__init__(count or 0, columns)
        if count is None:  # of texts: a vectorizer comes first
            self.inputs = [Tensor("input", "BYTES", (ANY,))]
        self.outputs = [Tensor(*self._output())]

    def _output(self) -> tuple[str, str, tuple[int, ...]]:
        if not hasattr(self.estimator, "predict"):
            return "transform", "FP64", (ANY, ANY)
        classes = getattr(self.estimator, "classes_", None)
        if isinstance(classes, np.ndarray):
            return "predict", datatype_of(classes), (ANY,)
        is_cluster = getattr(self.estimator, "_estimator_type", "") == "clusterer"
        return "predict", "INT32" if is_cluster else "FP64", (ANY,)

    def from_instances(self, instances: list[Any]) -> Arrays:
        """Columns keep their own types: one may be of texts, and the next of numbers."""
        if self.columns and instances and all(isinstance(row, list) for row in instances):
            if uneven := next((r for r in instances if len(r) != len(self.columns)), None):
                raise WrongInputError(f"A row has {len(uneven)} values, not {len(self.columns)}.")
            return dict(zip(self.columns, map(np.array, zip(*instances, strict=True)), strict=True))
        return super().from_instances(instances)

    def predict(self, given: Arrays, wanted: Sequence[str]) -> Arrays:
        """Besides its output: any of the estimator's ``predict…`` and ``transform`` by name."""
        answers = {}
        rows = self._rows(given)
        for name in wanted or [self.outputs[0].name]:
            does = getattr(self.estimator, name, None)
            if (
                name not in {"predict", "predict_proba", "predict_log_proba", "transform"}
                or not does
            ):
                raise WrongInputError(f"The model has no output {name}.")
            made = does(rows)
            answers[name] = np.asarray(made.toarray() if hasattr(made, "toarray") else made)
        return answers

    def _rows(self, given: Arrays) -> Any:
        if self.inputs[0].datatype == "BYTES":
            return list(texts(next(iter(given.values())), "input").reshape(-1))
        if not self.columns:
            return self.rows(given)
        import pandas as pd

        if len(given) == 1 and self.columns[0] not in given:
            return pd.DataFrame(self.rows(given), columns=list(self.columns))
        columns = {name: given[name].reshape(-1) for name in self.named(given)}
        return pd.DataFrame(
            {n: texts(its, n) if its.dtype.kind == "O" else its for n, its in columns.items()}
        )


def _alone(library: str) -> Any:
    """Import a library without what it would load besides: four fifths of the time to start."""
    for name in ("sklearn", "pandas"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # as if it were not installed
    return importlib.import_module(library)


class XGBoostModel(Table):
    """What ``save_model`` wrote. It predicts as the booster does: classes as probabilities."""

    def __init__(self, path: Path, threads: int) -> None:
        xgboost = _alone("xgboost")

        if path.suffix == ".json":  # the version is the file's last key
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - 200))
                found = re.search(rb'"version"\s*:\s*\[(\d+),\s*(\d+),\s*(\d+)', file.read())
            self.made_with = ".".join(part.decode() for part in found.groups()) if found else ""
            refuse_newer(path, "XGBoost", self.made_with, xgboost.__version__)
        self.booster = xgboost.Booster({"nthread": threads})
        self.booster.load_model(str(path))
        super().__init__(self.booster.num_features(), self.booster.feature_names or (), "FP32")
        learner = json.loads(self.booster.save_config())["learner"]
        each = int(learner["learner_model_param"]["num_class"])
        has_many = each > 1 and learner["objective"]["name"] != "multi:softmax"
        self.outputs = [Tensor("predict", "FP32", (ANY, each) if has_many else (ANY,))]
        best = self.booster.attr("best_iteration")
        self.rounds = (0, int(best) + 1) if best else (0, 0)
        is_linear = learner["gradient_booster"]["name"] == "gblinear"
        self.alone = threading.Lock() if is_linear else None  # linear ones answer one at a time

    def predict(self, given: Arrays, wanted: Sequence[str]) -> Arrays:
        import xgboost

        only(wanted, self.outputs)
        rows = self.rows(given)
        if self.alone is None:
            return {"predict": self.booster.inplace_predict(rows, iteration_range=self.rounds)}
        with self.alone:
            matrix = xgboost.DMatrix(rows)
            return {"predict": self.booster.predict(matrix, validate_features=False)}


class LightGBMModel(Table):
    """The text that ``save_model`` wrote. It predicts as the booster does."""

    def __init__(self, path: Path, threads: int) -> None:
        self.threads = threads
        self.booster = _alone("lightgbm").Booster(model_file=str(path))
        names = self.booster.feature_name()
        given = [] if names == [f"Column_{n}" for n in range(len(names))] else names
        super().__init__(self.booster.num_feature(), given)
        each = self.booster.num_model_per_iteration()
        self.outputs = [Tensor("predict", "FP64", (ANY, each) if each > 1 else (ANY,))]

    def predict(self, given: Arrays, wanted: Sequence[str]) -> Arrays:
        only(wanted, self.outputs)
        return {"predict": self.booster.predict(self.rows(given), num_threads=self.threads)}
