"""A passkey in a real Chromium, under the strict content security policy."""

from __future__ import annotations

import re
import secrets

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import PASSWORD
from tests.support.portal import Portal

pytestmark = [pytest.mark.browser, pytest.mark.real]
KEY = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


def test_a_passkey_is_added_and_signs_in_without_a_password(
    chromium: Browser, portal: Portal
) -> None:
    petra = f"petra-{secrets.token_hex(3)}"
    portal.shell(
        "from accounts.services.people import user_create\n"
        f"user_create(who=None, username={petra!r}, password={PASSWORD!r})\n"
        "answer = True"
    )
    context = chromium.new_context(locale="en-US")
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    device = context.new_cdp_session(page)
    device.send("WebAuthn.enable")
    device.send("WebAuthn.addVirtualAuthenticator", {"options": KEY})

    page.goto(f"{portal.url}/accounts/2fa/webauthn/add/")
    page.get_by_label(re.compile("username", re.IGNORECASE)).fill(petra)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "/login/" not in url)
    page.get_by_label("Password", exact=True).fill(PASSWORD)  # asked once more
    page.keyboard.press("Enter")
    page.get_by_label("Name").fill("laptop")
    page.wait_for_load_state()  # what the button does is a script's
    page.get_by_label("Passwordless").check()
    page.get_by_role("button", name="Add").click()
    expect(page).to_have_url(re.compile("/recovery-codes/"))

    page.goto(f"{portal.url}/accounts/logout/")
    page.get_by_role("main").get_by_role("button", name="Sign out").click()
    passkey = page.get_by_role("button", name="Sign in with a passkey")
    expect(passkey).to_be_visible()
    page.wait_for_load_state()
    passkey.click()
    expect(page).to_have_url(f"{portal.url}/")
    page.goto(f"{portal.url}/settings/security")
    expect(page.get_by_text("1 passkey.")).to_be_visible()
    assert not complaints
    context.close()
