"""The proof of serving in one piece: C23, C24's panel, C25 to C27 in a browser.

A job trains a model; four presses later it answers. A program calls it with a key that a page made;
its next version is tried as a canary, taken back, tried again and promoted; it sleeps and is woken
by a request. Real processes, gateway and model servers.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from benchmarks.lib import poll
from tests.browser.test_story import picture
from tests.browser.test_two_clicks import Visitor
from tests.serving.server import python
from tests.support.clustered import ok
from tests.support.portal import Portal

pytestmark = [
    pytest.mark.browser,
    pytest.mark.real,
    pytest.mark.timeout(300),
    pytest.mark.long(
        "80 s; its parts by HTTP: serving/test_real_endpoints.py, each page: serving/test_pages.py"
    ),
]

SEEN_WITHIN_MS = 60_000
FLOWERS = [[5.1, 3.5, 1.4, 0.2], [6.7, 3.0, 5.2, 2.3]]
CLASSES = [0, 2]
TRAINS = """
import joblib, os, pathlib
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
data = load_iris()
model = LogisticRegression(max_iter=500).fit(data.data, data.target)
joblib.dump(model, pathlib.Path(os.environ["BERTH_OUTPUT"], "model.joblib"))
print("accuracy", model.score(data.data, data.target))
"""


class Caller:
    """A program outside with a key, at the address that the page shows."""

    def __init__(self, address: str, key: str) -> None:
        self.url = f"{address.replace('localhost', '127.0.0.1')}/v1/models/iris:predict"
        self.headers = {"Authorization": f"Bearer {key}"}

    def ask(self, **headers: str) -> httpx.Response:
        said = {**self.headers, **headers}
        return httpx.post(self.url, json={"instances": FLOWERS}, headers=said, timeout=120)

    def version(self, **headers: str) -> str:
        """Return which one answered, and rightly."""
        answer = self.ask(**headers)
        assert (answer.status_code, answer.json()) == (200, {"predictions": CLASSES}), answer.text
        return answer.headers["X-Berth-Version"]


@pytest.mark.parametrize("portal", ["machine"], indirect=True)
def test_a_model_from_its_run_to_an_answer_a_canary_a_promotion_sleep_and_back(
    chromium: Browser, portal: Portal, people: dict[str, str], tmp_path: Path
) -> None:
    trainer = [str(word) for word in python()]
    ann = Visitor(chromium, portal)
    ann.page.set_viewport_size({"width": 1440, "height": 900})
    ann.sign_in(people["owner"])
    page, seen = ann.page, Pictures(ann.page, tmp_path)
    api = portal.api(portal.token(people["owner"]))
    job = {"name": "iris", "output": "volume:shared/results", "memory_mib": 1024}
    run = ok(api.post("projects/demo/jobs", json={**job, "command": [*trainer, "-c", TRAINS]}))
    page.goto(f"{portal.url}/projects/demo/jobs/{run.json()['id']}/")
    expect(page.locator(".state-words")).to_contain_text("Succeeded", timeout=SEEN_WITHIN_MS)

    # from the run that ended to an answer: four presses, and nothing typed
    seen.take("run")
    ann.click(page.get_by_role("link", name="Register as model"))
    expect(page.get_by_label("Model", exact=True)).to_have_value("iris")
    seen.take("register")
    ann.click(page.get_by_role("button", name="Register and deploy"))
    expect(page.locator("#plan")).to_contain_text("Starts now", timeout=SEEN_WITHIN_MS)
    seen.take("deploy")
    ann.click(page.get_by_role("button", name="Start", exact=True))
    page.wait_for_url(re.compile(r"/endpoints/[a-z0-9]+/$"))
    here, state = page.url, page.locator(".state-words")
    expect(state).to_contain_text("Ready", timeout=SEEN_WITHIN_MS)
    seen.take("endpoint")
    address = page.locator(".endpoint-address").inner_text().strip()
    ann.click(page.get_by_role("button", name="Send an example"))
    tried = page.locator("#tried")
    expect(tried).to_contain_text("predictions", timeout=SEEN_WITHIN_MS)
    expect(tried).to_contain_text("answered by v1")
    assert ann.clicks == 4
    seen.take("answer")

    # a program with a key of its own
    page.get_by_role("link", name="Keys", exact=True).click()
    page.get_by_label("Name", exact=True).fill("web shop")
    page.get_by_role("button", name="Make a key").click()
    shop = Caller(address, page.locator(".account-secret").inner_text().strip())
    seen.take("key")
    poll(lambda: shop.ask().status_code == 200, within_s=5, every_s=0.1)
    assert shop.version() == "v1"

    # the next version beside it: a quarter of the requests, by the arrow keys
    page.goto(f"{portal.url}/projects/demo/models/iris/")
    page.get_by_role("link", name="Add a version").click()
    page.get_by_label("Where its files are").fill("run:iris/latest")
    page.get_by_role("button", name="Register", exact=True).click()
    expect(page.get_by_role("row").filter(has_text="v2")).to_contain_text("There", timeout=30_000)
    seen.take("versions")
    canary(page, here)
    seen.take("canary")
    share(page, 25)
    expect(page.locator("#canary-title").locator("xpath=ancestor::section")).to_contain_text("25 %")
    assert shop.version(**{"X-Berth-Version": "canary"}) == "v2"
    assert {shop.version() for _ in range(24)} == {"v1", "v2"}
    seen.take("split")
    page.get_by_role("button", name="Roll back").click()
    expect(page.get_by_label("Share of the canary, in percent").last).to_have_value("0")
    poll(lambda: {shop.version() for _ in range(8)} == {"v1"}, within_s=5, every_s=0.1)
    seen.take("rolled-back")

    # again, and for good: every request of the meantime is answered
    share(page, 50)
    poll(lambda: "v2" in {shop.version() for _ in range(8)}, within_s=5, every_s=0.1)
    over, answers = threading.Event(), list[int]()

    def call() -> None:
        while not over.is_set():
            answers.append(shop.ask().status_code)

    calling = threading.Thread(target=call)
    calling.start()
    try:
        page.get_by_role("button", name="Promote").first.click()
        page.get_by_role("dialog").get_by_role("button", name="Promote").click()
        expect(page.locator("#canary-title ~ *, #canary-title")).to_be_visible()
        put = page.get_by_role("link", name="Put a canary beside it")
        expect(put).to_be_visible(timeout=SEEN_WITHIN_MS)
    finally:
        over.set()
        calling.join()
    assert set(answers) == {200}, answers
    assert {shop.version() for _ in range(8)} == {"v2"}
    seen.take("promoted")

    # asleep it holds nothing; a request wakes it, and is answered
    page.get_by_role("button", name="Put to sleep").click()
    expect(state).to_contain_text("Asleep", timeout=SEEN_WITHIN_MS)
    seen.take("asleep")
    stranger = Caller(address, f"bep_{'x' * 32}").ask()
    assert (stranger.status_code, "Asleep" in state.inner_text()) == (401, True)
    assert shop.version() == "v2"
    expect(state).to_contain_text("Ready", timeout=SEEN_WITHIN_MS)
    seen.take("woken")

    # who called what, and what it says elsewhere
    def told() -> bool:
        page.get_by_role("link", name="Requests", exact=True).click()
        callers = page.get_by_role("region", name="Who called")
        return callers.count() > 0 and "web shop" in callers.inner_text()

    poll(told, within_s=20, every_s=1)
    seen.take("requests")
    page.goto(f"{portal.url}/projects/demo/endpoints/")
    expect(page.get_by_role("row").filter(has_text="iris")).to_contain_text("iris/v2")
    seen.take("list")
    ann.context.close()


def canary(page: Page, here: str) -> None:
    """Put the newest other version beside it; wait until it answers."""
    page.goto(here)
    page.get_by_role("link", name="Put a canary beside it").click()
    page.get_by_role("button", name="Start the canary").click()
    card = page.locator("section", has=page.locator("#canary-title"))
    expect(card.get_by_text("Ready", exact=True)).to_be_visible(timeout=SEEN_WITHIN_MS)


def share(page: Page, percent: int) -> None:
    """Move the slider by keys alone."""
    slider = page.locator("[data-split-slider]")
    slider.focus()
    now = int(slider.input_value())
    for _step in range(abs(percent - now)):
        page.keyboard.press("ArrowRight" if percent > now else "ArrowLeft")
    page.keyboard.press("Enter")
    expect(page.get_by_text(f"{percent} % of the requests go to the canary.")).to_be_visible()


class Pictures:
    """One of each step, wide and light, narrow and dark."""

    def __init__(self, page: Page, folder: Path) -> None:
        self.page, self.folder, self.count = page, folder, 0

    def take(self, name: str) -> None:
        self.count += 1
        picture(self.page, self.folder / f"{self.count:02}-{name}.png")
