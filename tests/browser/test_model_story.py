"""The proof of serving in one piece: C23, C24's panel, C25 to C27 in a browser.

A job trains a model; four presses later it answers. A program calls it with a key that a page made;
its next version is tried as a canary, taken back, tried again and promoted; it sleeps and is woken
by a request. Real processes, gateway and model servers.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from benchmarks.lib import poll
from tests.browser.test_story import picture
from tests.browser.test_two_clicks import Visitor
from tests.serving.server import python
from tests.support.clustered import ok
from tests.support.portal import Portal

pytestmark = [
    pytest.mark.browser,
    pytest.mark.real,
    pytest.mark.timeout(400),
    pytest.mark.long(
        "two minutes; its parts by HTTP: serving/test_real_endpoints.py, pages: serving/test_pages.py"
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

    def versions(self, count: int = 8) -> set[str]:
        return {self.version() for _request in range(count)}


@dataclass
class Story:
    """Somebody at a browser, who takes a picture of each step: wide and light, narrow and dark."""

    ann: Visitor
    portal: Portal
    pictures: Path
    taken: int = 0

    @property
    def page(self) -> Page:
        return self.ann.page

    @property
    def state(self) -> Locator:
        return self.page.locator(".state-words")

    def card(self, title: str) -> Locator:
        return self.page.locator("section", has=self.page.locator(f"#{title}"))

    def take(self, name: str) -> None:
        self.taken += 1
        picture(self.page, self.pictures / f"{self.taken:02}-{name}.png")


@pytest.mark.parametrize("portal", ["machine"], indirect=True)
def test_a_model_from_its_run_to_an_answer_a_canary_a_promotion_sleep_and_back(
    chromium: Browser, portal: Portal, people: dict[str, str], tmp_path: Path
) -> None:
    trainer = [str(word) for word in python()]
    ann = Visitor(chromium, portal)
    ann.page.set_viewport_size({"width": 1440, "height": 900})
    ann.sign_in(people["owner"])
    told = Story(ann, portal, tmp_path)
    api = portal.api(portal.token(people["owner"]))
    job = {"name": "iris", "output": "volume:shared/results", "memory_mib": 1024}
    run = ok(api.post("projects/demo/jobs", json={**job, "command": [*trainer, "-c", TRAINS]}))
    ann.page.goto(f"{portal.url}/projects/demo/jobs/{run.json()['id']}/")
    expect(told.state).to_contain_text("Succeeded", timeout=SEEN_WITHIN_MS)

    here, address = answers_after_four_presses(told)
    shop = Caller(address, key_made(told))
    poll(lambda: shop.ask().status_code == 200, within_s=5, every_s=0.1)
    assert shop.version() == "v1"
    next_version(told)
    tried_beside_it_and_taken_back(told, here, shop)
    promoted_without_a_gap(told, shop)
    asleep_and_woken(told, shop, address)
    says_who_called(told)
    ann.context.close()


def answers_after_four_presses(told: Story) -> tuple[str, str]:
    """From the run that ended to an answer, with nothing typed; return its page and its address."""
    ann, page = told.ann, told.page
    told.take("run")
    ann.click(page.get_by_role("link", name="Register as model"))
    expect(page.get_by_label("Model", exact=True)).to_have_value("iris")
    told.take("register")
    ann.click(page.get_by_role("button", name="Register and deploy"))
    expect(page.locator("#plan")).to_contain_text("Starts now", timeout=SEEN_WITHIN_MS)
    told.take("deploy")
    ann.click(page.get_by_role("button", name="Start", exact=True))
    page.wait_for_url(re.compile(r"/endpoints/[a-z0-9]+/$"))
    here = page.url
    expect(told.state).to_contain_text("Ready", timeout=SEEN_WITHIN_MS)
    told.take("endpoint")
    address = page.locator(".endpoint-address").inner_text().strip()
    ann.click(page.get_by_role("button", name="Send an example"))
    expect(page.locator("#tried")).to_contain_text("predictions", timeout=SEEN_WITHIN_MS)
    expect(page.locator("#tried")).to_contain_text("answered by v1")
    assert ann.clicks == 4
    told.take("answer")
    return here, address


def key_made(told: Story) -> str:
    page = told.page
    page.get_by_role("link", name="Keys", exact=True).click()
    page.get_by_label("Name", exact=True).fill("web shop")
    page.get_by_role("button", name="Make a key").click()
    secret = page.locator(".account-secret").inner_text().strip()
    told.take("key")
    return secret


def next_version(told: Story) -> None:
    page = told.page
    page.goto(f"{told.portal.url}/projects/demo/models/iris/")
    page.get_by_role("link", name="Add a version").click()
    page.get_by_label("Where its files are").fill("run:iris/latest")
    page.get_by_role("button", name="Register", exact=True).click()
    there = page.get_by_role("row").filter(has_text="v2").get_by_text("There")
    expect(there).to_be_visible(timeout=SEEN_WITHIN_MS)
    told.take("versions")


def tried_beside_it_and_taken_back(told: Story, here: str, shop: Caller) -> None:
    """A canary gets a quarter of the requests, each that asks for it by name, and then none."""
    page, card = told.page, told.card("canary-title")
    page.goto(here)
    page.get_by_role("link", name="Put a canary beside it").click()
    told.take("canary-form")
    page.get_by_role("button", name="Start the canary").click()
    expect(card.get_by_text("It is starting.")).to_be_visible()
    told.take("canary-starts")
    expect(card.get_by_text("Ready", exact=True)).to_be_visible(timeout=SEEN_WITHIN_MS)
    assert shop.versions() == {"v1"}
    share(page, 25)
    expect(card).to_contain_text("25\N{NO-BREAK SPACE}%")
    assert shop.version(**{"X-Berth-Version": "canary"}) == "v2"
    poll(lambda: shop.versions(24) == {"v1", "v2"}, within_s=5, every_s=0.1)
    told.take("split")
    page.get_by_role("button", name="Roll back").click()
    expect(page.locator("#split-percent")).to_have_value("0")
    poll(lambda: shop.versions() == {"v1"}, within_s=5, every_s=0.1)
    told.take("rolled-back")


def share(page: Page, percent: int) -> None:
    """Move the slider by keys alone."""
    slider = page.locator("[data-split-slider]")
    slider.focus()
    now = int(slider.input_value())
    for _step in range(abs(percent - now)):
        page.keyboard.press("ArrowRight" if percent > now else "ArrowLeft")
    page.keyboard.press("Enter")
    expect(page.get_by_text(f"{percent} % of the requests go to the canary.")).to_be_visible()


def promoted_without_a_gap(told: Story, shop: Caller) -> None:
    """It gets half of the requests again, then all; somebody calls all the while."""
    page = told.page
    share(page, 50)
    poll(lambda: "v2" in shop.versions(), within_s=5, every_s=0.1)
    over, answers = threading.Event(), list[int]()

    def call() -> None:
        while not over.is_set():
            answers.append(shop.ask().status_code)

    calling = threading.Thread(target=call)
    calling.start()
    try:
        page.get_by_role("button", name="Promote").first.click()
        page.get_by_role("dialog").get_by_role("button", name="Promote").click()
        told.take("promoting")
        put = page.get_by_role("link", name="Put a canary beside it")
        expect(put).to_be_visible(timeout=SEEN_WITHIN_MS)
    finally:
        over.set()
        calling.join()
    assert set(answers) == {200}, answers
    assert shop.versions() == {"v2"}
    told.take("promoted")


def asleep_and_woken(told: Story, shop: Caller, address: str) -> None:
    """Asleep it holds nothing; who has no key learns and changes nothing, who has one is answered."""
    told.page.get_by_role("button", name="Put to sleep").click()
    expect(told.state).to_contain_text("Asleep", timeout=SEEN_WITHIN_MS)
    told.take("asleep")
    assert Caller(address, f"bep_{'x' * 32}").ask().status_code == 401
    expect(told.state).to_contain_text("Asleep")
    assert shop.version() == "v2"
    expect(told.state).to_contain_text("Ready", timeout=SEEN_WITHIN_MS)
    told.take("woken")


def says_who_called(told: Story) -> None:
    page = told.page

    def names_the_shop() -> bool:
        page.get_by_role("link", name="Requests", exact=True).click()
        callers = told.card("callers-title")
        return callers.count() > 0 and "web shop" in callers.inner_text()

    poll(names_the_shop, within_s=20, every_s=1)
    told.take("requests")
    page.goto(f"{told.portal.url}/projects/demo/endpoints/")
    expect(page.get_by_role("row").filter(has_text="iris")).to_contain_text("iris/v2")
    told.take("list")
