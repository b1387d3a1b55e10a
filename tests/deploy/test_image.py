"""What is in the images, and what is not."""

import json
import time
from pathlib import Path

import pytest

from clusters.checks import image
from tests.deploy.images import (
    MODEL_SERVER,
    NOTEBOOK,
    PROXY,
    SERVER,
    model_server_image,
    notebook_image,
    podman,
)
from tests.support.portal import ROOT

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(1800)]
PROGRAMS = ("jupyterhub-singleuser", "jupyter-standaloneproxy")
HARD = ("--rm", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")


def shell(env: dict[str, str], image: str, script: str) -> str:
    return podman(env, "run", *HARD, "--entrypoint", "sh", image, "-c", script)


@pytest.mark.parametrize("image", [SERVER, PROXY])
def test_processes_run_as_a_number_without_a_name_and_without_tools_to_build(
    built: dict[str, str], image: str
) -> None:
    script = "id -u; for p in gcc cc make; do command -v $p; done; true"
    assert shell(built, image, script).split() == ["10001"]


def test_the_server_has_what_browsers_load_and_no_tests_secrets_or_installer(
    built: dict[str, str],
) -> None:
    listed = shell(
        built,
        SERVER,
        "ls -A /srv/berth; ls /srv/static/vendor; find /srv/berth/locale -name '*.mo';"
        "ls /opt/berth/bin; ls /srv/static/js",
    ).split()
    assert {"tabler", "uplot"} <= set(listed)
    assert any(name.endswith("django.mo") for name in listed)
    assert not {"tests", "var", "node_modules", ".git", "devcluster", "pip", ".env"} & set(listed)


def test_the_proxy_has_its_packages_and_nothing_for_browsers(built: dict[str, str]) -> None:
    listed = shell(built, PROXY, "ls node_modules; ls").split()
    assert "configurable-http-proxy" in listed
    assert not {"@tabler", "uplot", "manage.py"} & set(listed)


def test_the_server_starts_nothing_when_it_is_not_configured(built: dict[str, str]) -> None:
    done = podman(built, "run", *HARD, "--env", "BERTH_SECRET_KEY=", SERVER, "check", check=False)
    assert done == ""


def test_both_command_lines_are_there(built: dict[str, str]) -> None:
    lines = podman(built, "run", *HARD, SERVER, "secrets").splitlines()
    assert any(line.startswith("BERTH_SECRET_KEY=") for line in lines)
    assert "Launch and manage" in shell(built, SERVER, "berth --help")


def test_one_image_is_jupyterlab_for_pods_and_signs_people_in_before_ports(
    engine: dict[str, str],
) -> None:
    notebook_image()
    script = f"id -u; for p in {' '.join(PROGRAMS)} git tini; do command -v $p; done"
    listed = shell(engine, NOTEBOOK, script).split()
    ours = [f"/opt/jupyter/bin/{name}" for name in PROGRAMS]
    assert listed == ["1000", *ours, "/usr/bin/git", "/usr/bin/tini"]
    for code in (image.GUARD, "import jupyterlab, ipykernel"):
        podman(engine, "run", *HARD, "--entrypoint", "python3", NOTEBOOK, "-c", code)
    shell(engine, NOTEBOOK, "test -s /opt/jupyter/share/jupyter/lab/settings/overrides.json")


ASK = """
import json, sys, urllib.request
said = json.dumps({"instances": json.loads(sys.argv[1])}).encode()
url = "http://127.0.0.1:8080/v1/models/digits:predict"
print(urllib.request.urlopen(urllib.request.Request(url, said), timeout=30).read().decode())
"""


def test_a_model_server_answers_as_a_number_without_root_and_without_the_portal(
    engine: dict[str, str], tmp_path: Path
) -> None:
    model_server_image()
    tmp_path.chmod(0o777)
    folder, samples = f"{tmp_path}:/mnt/models", ROOT / "tests/serving/samples.py"
    write = ("--volume", folder, "--volume", f"{samples}:/samples.py:ro", "--entrypoint", "python3")
    made = podman(
        engine, "run", *HARD, *write, MODEL_SERVER, "/samples.py", "sklearn", "/mnt/models"
    )
    told = json.loads(made.splitlines()[-1])
    words = ("--framework", "sklearn", "--model-dir", "/mnt/models", "--name", "digits")
    here = podman(engine, "run", "-d", *HARD, "-v", f"{folder}:ro", MODEL_SERVER, *words).strip()
    try:
        end, answer = time.monotonic() + 60, ""
        while not answer and time.monotonic() < end:
            asked = ("python3", "-c", ASK, json.dumps(told["instances"]))
            answer = podman(engine, "exec", here, *asked, check=False)
        assert json.loads(answer)["predictions"] == told["predictions"]
        look = "id -u; ls /opt/program /opt/program/serving; ls /srv 2>/dev/null"
        listed = podman(engine, "exec", here, "sh", "-c", look).split()
        assert listed[:2] == ["1000", "/opt/program:"]
        assert not {"models.py", "portal", "berth"} & set(listed)
    finally:
        podman(engine, "rm", "-f", "-t", "5", here)
