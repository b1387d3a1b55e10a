"""What is in the images, and what is not."""

import pytest

from clusters.checks import image
from tests.deploy.images import NOTEBOOK, PROXY, SERVER, notebook_image, podman

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
