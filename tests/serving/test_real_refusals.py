"""Models that their own library refuses, and one that is a program: what the server says and does."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
from pathlib import Path

import pytest

from tests.serving.server import make_sample, python, run, serve

pytestmark = pytest.mark.real

NOBODY = 65534


def test_a_file_of_a_later_release_is_refused(tmp_path: Path) -> None:
    make_sample("xgboost", tmp_path)
    file = tmp_path / "model.json"
    file.write_text(re.sub(r'"version":\[\d+,\d+,', '"version":[99,1,', file.read_text()))
    ended = run("xgboost", tmp_path)
    assert ended.returncode == 65
    assert re.fullmatch(
        r"berth: model.json was made with XGBoost 99\.1\.0 and this server has 3\.\d+\.\d+: "
        r"save it with that version, or serve it with a newer image.\n",
        ended.stderr,
    )


@pytest.mark.parametrize(
    ("framework", "name", "content"),
    [
        ("onnx", "model.onnx", b"\x08\x0a\x12\x04test" + b"\xff" * 50),
        ("xgboost", "model.json", b'{"learner": {"attributes": '),
        ("lightgbm", "model.txt", b"tree\nversion=v4\nnum_class=1\nhello\n"),
        ("sklearn", "model.pkl", b"\x80\x04\x95\xff\xff"),
        ("sklearn", "model.pkl", pickle.dumps({"weights": [1, 2]})),
    ],
)
def test_a_damaged_file_is_one_sentence(
    tmp_path: Path, framework: str, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    ended = run(framework, tmp_path)
    assert ended.returncode == 65, ended.stderr
    said = ended.stderr.splitlines()[-1]
    assert said.startswith("berth: ")
    assert name in said
    assert "Traceback" not in ended.stderr


def test_a_framework_that_is_not_here_is_named(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"x")
    ended = run("tensorflow", tmp_path)
    assert ended.returncode == 69
    assert ended.stderr.endswith("tensorflow is not installed here.\n")


class Program:
    """A pickle that is a program: it writes who it is, and tries to write elsewhere."""

    def __init__(self, told: Path, elsewhere: Path) -> None:
        self.said = (
            f"[open({str(told)!r}, 'w').write(str(__import__('os').getuid())),"
            f" __import__('os').access({str(elsewhere)!r}, 2)]"
        )

    def __reduce__(self):
        return (eval, (self.said,))


@pytest.mark.root
def test_a_pickle_with_code_runs_as_the_user_of_the_server_and_nobody_else(tmp_path: Path) -> None:
    """The portal never opens it; here it does what the project's own user may do, and is refused."""
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents:
        if not folder.stat().st_mode & 1:
            folder.chmod(folder.stat().st_mode | 1)
    mine, theirs, told = tmp_path / "mine", tmp_path / "theirs", tmp_path / "mine/told"
    mine.mkdir()
    theirs.mkdir(mode=0o700)
    os.chown(mine, NOBODY, NOBODY)
    (mine / "model.pkl").write_bytes(pickle.dumps(Program(told, theirs)))
    ended = run("sklearn", mine, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", env={})
    assert ended.returncode == 65
    assert "holds a list, which predicts nothing" in ended.stderr
    assert told.read_text() == str(NOBODY)


def test_a_failing_model_tells_who_asks_and_keeps_requests_out_of_the_log(tmp_path: Path) -> None:
    program = (
        "import joblib, sys\n"
        "class Fails:\n"
        "    def __reduce__(self):\n"
        "        return (eval, (\"__import__('types').SimpleNamespace(n_features_in_=1, "
        'predict=lambda rows: {}[str(rows)])",))\n'
        "joblib.dump(Fails(), sys.argv[1])\n"
    )
    made = [*python("serving-samples"), "-c", program, tmp_path / "model.joblib"]
    subprocess.run(made, check=True)
    with serve("sklearn", tmp_path) as started:
        answer = started.post("/v1/models/sample:predict", json={"instances": [[4711.0]]})
        assert answer.status_code == 500
        assert "4711" in json.loads(answer.content)["error"]  # theirs, so they may see it
        assert started.get("/v2/health/ready").is_success
        started.process.terminate()
        assert started.process.stderr
        log = started.process.stderr.read()
    assert "a prediction failed with KeyError" in log
    assert "4711" not in log
