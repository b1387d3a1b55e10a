"""Journey J1d, with real parts: a key, a bucket into a volume, pandas on it, and back to the bucket."""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import MAIL
from tests.browser.test_two_clicks import LAB_WITHIN_MS, Visitor, run_in_notebook
from tests.support.clustered import ClusteredPortal, pinned
from tests.support.dataplane import settings_open_to
from tests.support.locked_environments import locked_environment
from tests.support.portal import Portal, environments
from tests.support.store_fixtures import begun
from tests.support.stores import VersityS3, run_client

pytestmark = [pytest.mark.browser, pytest.mark.real, pytest.mark.timeout(900)]

ROWS = 500
LOADED_MS = 240_000


def filled(store: Any) -> Iterator[VersityS3]:
    with store as running:
        running.make_bucket("lake")
        table = "n,square\n" + "".join(f"{n},{n * n}\n" for n in range(ROWS))
        put = {"do": "put", "bucket": "lake", "body": base64.b64encode(table.encode()).decode()}
        small = base64.b64encode(b"x" * 2000).decode()
        run_client(
            running,
            [
                {**put, "key": "tables/squares.csv"},
                *({**put, "key": f"tables/more/{n:03}.bin", "body": small} for n in range(40)),
            ],
        )
        yield running


@pytest.fixture(scope="module")
def machine_store() -> Iterator[VersityS3]:
    yield from filled(begun(VersityS3))


@pytest.fixture(scope="module")
def cluster_store(devcluster: dict[str, Any]) -> Iterator[VersityS3]:
    """Where pods reach it: at this machine's address among them."""
    yield from filled(begun(VersityS3, host=devcluster["host"]))


@pytest.fixture(scope="module")
def store(request: pytest.FixtureRequest) -> VersityS3:
    found: VersityS3 = request.getfixturevalue(f"{request.param}_store")
    return found


@pytest.fixture(scope="module")
def machine_portal(machine_store: VersityS3) -> Iterator[Portal]:
    if not (environments() / "jupyterlab").exists():
        pytest.skip("the JupyterLab environment is not built (make run or make test builds it)")
    running = Portal({**MAIL, **settings_open_to(machine_store.outbound())})
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def cluster_portal(devcluster: dict[str, Any], cluster_store: VersityS3) -> Iterator[Portal]:
    """A cluster and nothing else to run on; its network lets pods reach the store."""
    env = {**MAIL, **settings_open_to(cluster_store.outbound()), "BERTH_LOCAL_CLUSTER": "no"}
    running = ClusteredPortal(
        devcluster,
        f"bd{secrets.token_hex(2)}-",
        env,
        options={"allowed_cidrs": cluster_store.outbound()["allow"]},
    )
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def portal(request: pytest.FixtureRequest) -> Portal:
    found: Portal = request.getfixturevalue(f"{request.param}_portal")
    return found


@pytest.fixture(scope="module")
def people(portal: Portal) -> dict[str, str]:
    from tests.browser.conftest import PASSWORD

    portal.shell(
        "from accounts.models import User; from projects.models import Membership, Project\n"
        f"user = User(username='ann', email='ann@example.org'); user.set_password({PASSWORD!r})\n"
        "user.save()\n"
        "Membership.objects.create(project=Project.objects.get(slug='demo'), user=user,"
        " role='owner')\n"
        "answer = True"
    )
    return {"owner": "ann"}


def last_output(page: Page, text: str) -> None:
    out = page.locator(".jp-OutputArea-output pre").last
    expect(out).to_contain_text(re.compile(text), timeout=LOADED_MS)


@pytest.fixture(scope="module")
def analysis(portal: Portal) -> Path | None:
    """pandas and the aws command for notebooks of this machine; on a cluster the image has both."""
    if isinstance(portal, ClusteredPortal):
        return None
    return locked_environment("image-analysis")


def tools(page: Page, analysis: Path | None) -> str:
    """See to pandas where the notebook runs; return the aws command there."""
    if analysis is None:
        return "aws"
    (packages,) = analysis.glob("lib/python3.*/site-packages")
    run_in_notebook(
        page,
        f"import sys; sys.path.append({str(packages)!r});"
        " import pandas; print('have', pandas.__name__)",
    )
    last_output(page, "have pandas")
    return str(analysis / "bin" / "aws")


@pytest.fixture(scope="module")
def preset(portal: Portal) -> str:
    """The preset that ann presses: on a cluster one with an image for analysis."""
    if not isinstance(portal, ClusteredPortal):
        return "jupyterlab"
    image = pinned(portal.state["images"]["analysis"])
    size = {"cpu_milli": 1000, "memory_mib": 1024}
    return portal.preset(name="Analysis", kind="notebook", image=image, **size)


@pytest.mark.parametrize(
    ("portal", "store"),
    [
        ("machine", "machine"),
        pytest.param(
            "cluster",
            "cluster",
            marks=[
                pytest.mark.cluster,
                pytest.mark.long(
                    "the same on one machine beside it; by HTTP: cluster/test_loads.py"
                ),
            ],
        ),
    ],
    indirect=True,
    ids=["machine", "cluster"],
)
def test_j1d_from_a_bucket_to_pandas_and_back(
    chromium: Browser,
    portal: Portal,
    people: dict[str, str],
    store: VersityS3,
    preset: str,
    analysis: Path | None,
) -> None:
    ann = Visitor(chromium, portal)
    ann.sign_in(people["owner"])
    page = ann.page
    key = f"lake-{secrets.token_hex(2)}"

    # the key, stored once; the page never shows it again, and it is tested at the store itself
    page.goto(f"{portal.url}/projects/demo/credentials/?kind=s3-compatible#store")
    page.get_by_label("Name", exact=True).fill(key)
    page.get_by_label(re.compile("Endpoint", re.IGNORECASE)).fill(store.url)
    page.get_by_label("Access key id").fill(store.keys.access)
    page.get_by_label("Secret access key").fill(store.keys.secret)
    page.get_by_role("button", name="Store", exact=True).click()
    page.wait_for_url(lambda url: "kind=" not in url)
    page.goto(f"{portal.url}/projects/demo/credentials/")
    page.get_by_role("link", name=key).first.click()
    test = page.get_by_role("button", name=re.compile("^Test")).first
    expect(test).to_be_visible()
    assert store.keys.secret not in page.content()
    test.click()
    expect(page.get_by_text("The store accepts this key.").first).to_be_visible(timeout=LOADED_MS)

    # three presses and three fields from the list of loads to data in the volume
    page.goto(f"{portal.url}/projects/demo/loads/")
    ann.clicks = 0
    ann.click(page.get_by_role("link", name=re.compile("Load data")).first)
    keys = page.get_by_label(re.compile("^Credential"))
    expect(keys.locator("option", has_text=key)).to_be_attached()
    texts = keys.locator("option").all_inner_texts()
    keys.select_option(label=next(text for text in texts if key in text))
    page.get_by_label(re.compile("^Bucket and path")).fill("s3://lake/tables/")
    ann.click(page.get_by_role("button", name="Load", exact=True))
    assert ann.clicks <= 3
    expect(page.get_by_text(re.compile(r"^\s*Done")).first).to_be_visible(timeout=LOADED_MS)
    api = portal.api(portal.token("ann"))
    load = api.get("projects/demo/loads").json()["results"][0]
    load = api.get(f"projects/demo/loads/{load['id']}").json()
    assert load["status"]["files"]["done"] == 41, load

    # JupyterLab with that key, on that volume
    page.goto(f"{portal.url}/projects/demo/workspaces/launch/?preset={preset}")
    page.get_by_text("Volumes, credentials, data").click()
    page.get_by_label(re.compile(key)).check()
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url(re.compile(r"//[a-z0-9-]+\.nb\.localhost"), timeout=LAB_WITHIN_MS)
    tile = page.locator('.jp-LauncherCard[data-category="Notebook"]').first
    tile.wait_for(timeout=LAB_WITHIN_MS)
    tile.click()
    aws = tools(page, analysis)
    where = load["spec"]["folder"] or "."
    run_in_notebook(
        page,
        "import os, pandas as pd; t = pd.read_csv(os.path.join(os.environ['BERTH_VOLUMES'],"
        f" 'shared', {where!r}, 'squares.csv')); print('sum', int(t.square.sum()))",
    )
    last_output(page, f"sum {sum(n * n for n in range(ROWS))}")

    # and back with the unmodified aws CLI, which finds key, region and endpoint by itself
    run_in_notebook(
        page,
        "t.assign(cube=t.n**3).to_csv('cubes.csv', index=False);"
        f" print('aws', os.system('{aws} s3 cp cubes.csv s3://lake/out/cubes.csv'))",
    )
    last_output(page, "aws 0")
    [written] = run_client(store, [{"do": "get", "bucket": "lake", "key": "out/cubes.csv"}])
    text = base64.b64decode(written).decode()
    assert text.splitlines()[3] == "2,4,8"
