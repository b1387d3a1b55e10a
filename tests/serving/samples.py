"""Makes one small model of each framework with that framework, and says what it predicts.

    samples.py KIND FOLDER

Run by the environment that has the framework; the same file and figures each time. It prints
``{"instances": …, "predictions": …}``, predicted by the library itself from the model in memory.
"""

import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
warnings.simplefilter("ignore")
ROWS = np.random.default_rng(26).normal(size=(60, 3))
LABELS = (ROWS[:, 0] + 2 * ROWS[:, 1] > 0).astype(int)
AMOUNTS = 3 * ROWS[:, 0] - ROWS[:, 2]
NAMES = ["height", "width", "depth"]


def told(instances, predictions):
    as_list = lambda some: some.tolist() if hasattr(some, "tolist") else some  # noqa: E731
    print(json.dumps({"instances": as_list(instances), "predictions": as_list(predictions)}))  # noqa: T201


def sklearn(folder):
    import joblib
    from sklearn.linear_model import LogisticRegression

    made = LogisticRegression().fit(ROWS, LABELS)
    joblib.dump(made, folder / "model.joblib")
    told(ROWS[:4], made.predict(ROWS[:4]))


def sklearn_columns(folder):
    """Columns with names, of texts and of numbers."""
    import joblib
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = pd.DataFrame({"city": ["Kyoto", "Osaka"] * 30, "size": ROWS[:, 0]})
    said = np.where(frame["city"] == "Kyoto", "old", "new")
    columns = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    made = make_pipeline(columns, LogisticRegression(C=1e3)).fit(frame, said)
    joblib.dump(made, folder / "model.joblib", compress=3)
    told([["Kyoto", 1.5], ["Osaka", 1.5]], made.predict(frame.head(2)))


def sklearn_texts(folder):
    import joblib
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline

    made = make_pipeline(CountVectorizer(), MultinomialNB())
    made.fit(["good work", "good day", "bad work", "bad day"], ["up", "up", "down", "down"])
    joblib.dump(made, folder / "model.pkl")
    told(["a good thing", "a bad thing"], made.predict(["a good thing", "a bad thing"]))


def xgboost(folder, name="model.json"):
    import xgboost as library

    made = library.train({"max_depth": 2, "seed": 1}, library.DMatrix(ROWS, AMOUNTS), 5)
    made.save_model(folder / name)
    told(ROWS[:4], made.predict(library.DMatrix(ROWS[:4])))


def xgboost_columns(folder):
    """In its binary form, with names of columns and several classes."""
    import xgboost as library

    matrix = library.DMatrix(ROWS, LABELS + (ROWS[:, 2] > 0), feature_names=NAMES)
    made = library.train({"objective": "multi:softprob", "num_class": 3}, matrix, 3)
    made.save_model(folder / "model.ubj")
    first = library.DMatrix(ROWS[:4], feature_names=NAMES)
    told([dict(zip(NAMES, row, strict=True)) for row in ROWS[:4].tolist()], made.predict(first))


def lightgbm(folder):
    import lightgbm as library

    rows = library.Dataset(ROWS, AMOUNTS, params={"verbose": -1})
    made = library.train({"min_data_in_leaf": 3, "verbose": -1, "num_threads": 1}, rows, 5)
    made.save_model(folder / "model.txt")
    told(ROWS[:4], made.predict(ROWS[:4]))


def onnx(folder):
    """A layer with ReLU, and as another output the largest of each row."""
    import onnx as library
    import onnxruntime
    from onnx import TensorProto as Types
    from onnx import helper, numpy_helper

    weights = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(3, 2) - 2, "weights")
    value = lambda name, size: helper.make_tensor_value_info(name, Types.FLOAT, ["n", size])  # noqa: E731
    nodes = [
        helper.make_node("MatMul", ["x", "weights"], ["product"]),
        helper.make_node("Relu", ["product"], ["layer"]),
        helper.make_node("ArgMax", ["layer"], ["best"], axis=1, keepdims=0),
    ]
    best = helper.make_tensor_value_info("best", Types.INT64, ["n"])
    graph = helper.make_graph(
        nodes, "sample", [value("x", 3)], [value("layer", 2), best], [weights]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    library.save(made, folder / "model.onnx")
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    layer, best = session.run(None, {"x": ROWS[:4].astype(np.float32)})
    both = zip(layer.tolist(), best.tolist(), strict=True)
    told(ROWS[:4], [{"layer": row, "best": number} for row, number in both])


def tensorflow(folder):
    import tensorflow as tf

    class Sample(tf.Module):
        weights = tf.constant([[1.0], [2.0], [-1.0]])

        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
        def __call__(self, x):
            return {"y": tf.matmul(x, self.weights)}

    made = Sample()
    tf.saved_model.save(made, str(folder / "1"), signatures={"serving_default": made.__call__})
    rows = ROWS[:4].astype(np.float32)
    told(rows, made(tf.constant(rows))["y"].numpy())


def pytorch(folder):
    import torch

    torch.manual_seed(1)
    made = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()).eval()
    torch.jit.script(made).save(str(folder / "model.pt"))
    rows = torch.tensor(ROWS[:4].tolist())
    told(rows.tolist(), made(rows).detach().tolist())


def pytorch_exported(folder):
    import torch

    torch.manual_seed(1)
    made = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()).eval()
    rows = torch.tensor(ROWS[:4].tolist())
    sizes = ({0: torch.export.Dim("n", min=1, max=1024)},)
    torch.export.save(
        torch.export.export(made, (rows,), dynamic_shapes=sizes), folder / "model.pt2"
    )
    told(rows.tolist(), made(rows).detach().tolist())


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]))
