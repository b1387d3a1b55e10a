"""The frame around every page: language, theme, project, palette, streams, error pages."""

import json
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from portal.streams import authorise
from projects.models import Project

pytestmark = pytest.mark.django_db


def test_the_theme_is_rendered_by_the_server(as_user: Any, alice: Any) -> None:
    client = as_user(alice)
    page = client.get(reverse("projects:list")).content.decode()
    assert 'data-theme-choice="auto"' in page
    assert "data-bs-theme" not in page.split("<head>")[0]
    assert client.post(reverse("preferences"), {"theme": "dark"}).status_code == 302
    page = client.get(reverse("projects:list")).content.decode()
    assert 'data-bs-theme="dark"' in page.split("<head>")[0]


def test_the_fonts_come_from_this_server_in_parts_and_are_kept(as_user: Any, alice: Any) -> None:
    client = as_user(alice)
    page = client.get(reverse("projects:list"))
    assert "font-src 'self'" in page["Content-Security-Policy"]
    for name, family, least in (("inter", "Inter", 5), ("noto-sans-jp", "Noto Sans JP", 100)):
        sheet = f"/static/vendor/{name}/wght.css"
        assert sheet in page.content.decode()
        css = b"".join(client.get(sheet).streaming_content).decode()
        assert f"font-family: '{family} Variable'" in css
        files = re.findall(r"url\(\./(files/[\w.-]+\.woff2)\)", css)
        assert len(files) == css.count("unicode-range:") >= least
        answer = client.get(f"/static/vendor/{name}/{files[0]}")
        assert answer.status_code == 200
        assert "max-age=2592000" in answer["Cache-Control"]


def test_the_language_is_kept_with_the_account(as_user: Any, alice: Any) -> None:
    client = as_user(alice)
    client.post(reverse("preferences"), {"language": "ja"})
    alice.refresh_from_db()
    assert alice.language == "ja"
    assert '<html lang="ja"' in client.get(reverse("projects:list")).content.decode()


def test_a_visitor_can_choose_the_language_before_signing_in() -> None:
    client = Client()
    client.post(reverse("preferences"), {"language": "ja", "next": "/accounts/login/"})
    assert '<html lang="ja"' in client.get(reverse("account_login")).content.decode()


@pytest.mark.parametrize("field", ["language", "theme"])
def test_an_unknown_choice_is_refused(field: str, as_user: Any, alice: Any) -> None:
    assert as_user(alice).post(reverse("preferences"), {field: "xx"}).status_code == 400


def test_the_way_back_is_never_another_site(as_user: Any, alice: Any) -> None:
    answer = as_user(alice).post(
        reverse("preferences"), {"theme": "dark", "next": "https://evil.example/x"}
    )
    assert answer["Location"] == "/"


def test_switching_the_project_needs_membership(
    as_user: Any, alice: Any, charlie: Any, project: Any
) -> None:
    url = reverse("project-switch")
    assert as_user(charlie).post(url, {"project": project.slug}).status_code == 404
    client = as_user(alice)
    assert client.post(url, {"project": project.slug}).status_code == 302
    assert client.session["project"] == project.slug


def test_the_rail_has_no_dead_link(as_user: Any, operator: Any, project: Any) -> None:
    from projects.models import Membership

    Membership.objects.create(project=project, user=operator, role="owner")
    client = as_user(operator)
    page = client.get(reverse("projects:overview", kwargs={"project": project.slug}))
    shell = page.context["shell"]
    links = [item["url"] for item in (*shell["nav"], *shell["console_nav"], *shell["profile_nav"])]
    assert len(links) >= 15
    for link in links:
        assert client.get(link).status_code == 200, link


def test_the_palette_finds_pages_presets_and_own_workspaces_only(
    as_user: Any, alice: Any, charlie: Any, project: Any, principal: Any
) -> None:
    from notebooks.models import Preset
    from tests.support.workspaces import workspace_launch

    preset = Preset.objects.create(slug="lab", name="Lab")
    workspace_launch(principal=principal(alice), project=project, preset=preset)
    client = as_user(alice)
    client.post(reverse("project-switch"), {"project": project.slug})
    groups = client.get(reverse("palette"), {"q": "lab"}).json()["groups"]
    urls = [item["url"] for group in groups for item in group["items"]]
    assert any("/workspaces/" in url and not url.endswith("launch/") for url in urls)
    assert any(item.get("fields", {}).get("preset") == "lab" for g in groups for item in g["items"])
    other = as_user(charlie).get(reverse("palette"), {"q": "lab"}).json()["groups"]
    assert not any("/workspaces/" in item["url"] for g in other for item in g["items"])


def test_what_the_palette_starts_really_starts_once(as_user: Any, alice: Any, project: Any) -> None:
    from notebooks.models import Preset, Workspace

    Preset.objects.create(slug="lab", name="Lab")
    client = as_user(alice)
    client.post(reverse("project-switch"), {"project": project.slug})
    groups = client.get(reverse("palette"), {"q": "start lab"}).json()["groups"]
    item = next(i for g in groups for i in g["items"] if i.get("fields"))
    for _press in range(2):
        assert client.post(item["url"], item["fields"]).status_code == 302
    assert Workspace.objects.count() == 1


def _found(client: Any, words: str) -> dict[str, dict[str, Any]]:
    groups = client.get(reverse("palette"), {"q": words}).json()["groups"]
    return {item["label"]: item for group in groups for item in group["items"]}


def test_the_palette_finds_volumes_loads_and_people_of_ones_own_projects(
    as_user: Any, alice: Any, bob: Any, charlie: Any, operator: Any, project: Any
) -> None:
    from loaders.models import Load
    from projects.models import Membership
    from volumes.models import Volume

    Membership.objects.get_or_create(project=project, user=bob, defaults={"role": "member"})
    volume = Volume.objects.create(
        project=project, name="genomes", kind="data", cluster_key="local"
    )
    Load.objects.create(
        project=project,
        owner=alice,
        volume=volume,
        name="genomes of 2024",
        store_kind="s3",
        bucket="b",
    )
    mine = _found(as_user(alice), "genom")
    assert set(mine) == {"genomes", "genomes of 2024"}
    for item in mine.values():
        assert as_user(alice).get(item["url"]).status_code == 200
    assert _found(as_user(charlie), "genom") == {}
    bob_there = _found(as_user(alice), "bob")[bob.label]
    assert bob_there["url"].endswith("/members?q=bob")
    assert as_user(alice).get(bob_there["url"]).status_code == 200
    assert bob.label not in _found(as_user(charlie), "bob")
    by_operator = _found(as_user(operator), "charlie")[charlie.label]
    assert as_user(operator).get(by_operator["url"]).status_code == 200


def test_the_palette_changes_the_theme_and_the_language_and_signs_out(
    as_user: Any, alice: Any
) -> None:
    client = as_user(alice)
    dark = _found(client, "dark")["Theme: Dark"]
    assert client.post(dark["url"], dark["fields"]).status_code == 302
    alice.refresh_from_db()
    assert alice.theme == "dark"
    japanese = _found(client, "日本")["Language: 日本語"]
    client.post(japanese["url"], japanese["fields"])
    alice.refresh_from_db()
    assert alice.language == "ja"
    client.post(japanese["url"], {"language": "en"})
    leaving = _found(client, "sign out")["Sign out"]
    client.post(leaving["url"])
    assert client.get(reverse("palette")).status_code == 302


def test_the_palette_needs_a_constant_number_of_queries(
    as_user: Any, alice: Any, django_assert_max_num_queries: Any
) -> None:
    from projects.models import Membership

    for i in range(20):
        made = Project.objects.create(slug=f"p{i}", name=f"Project {i}")
        Membership.objects.create(project=made, user=alice, role="owner")
    client = as_user(alice)
    with django_assert_max_num_queries(17):
        client.get(reverse("palette"), {"q": "pro"})


def test_streams_carry_only_topics_one_may_hear(
    rf: Any, alice: Any, charlie: Any, operator: Any, project: Any
) -> None:
    topics = [f"project:{project.uid}", f"user:{alice.uid}", "operators", "workspace:nonsense"]

    def heard(user: Any) -> list[str]:
        return authorise(user, "", topics)

    assert heard(alice) == [f"project:{project.uid}", f"user:{alice.uid}"]
    assert heard(charlie) == []
    assert heard(operator) == [f"project:{project.uid}", "operators"]


def test_a_missing_page_says_so_in_words_and_as_a_fragment(as_user: Any, alice: Any) -> None:
    client = as_user(alice)
    answer = client.get("/nothing/here")
    assert answer.status_code == 404
    assert "<h1" in answer.content.decode()
    fragment = client.get("/nothing/here", HTTP_HX_REQUEST="true").content.decode()
    assert "<html" not in fragment
    assert "data-toast" in fragment


def test_a_missing_api_path_is_a_problem_document(as_user: Any, alice: Any) -> None:
    answer = as_user(alice).get("/api/v1/nothing")
    assert answer.status_code == 404
    assert answer["Content-Type"] == "application/problem+json"
    assert json.loads(answer.content)["status"] == 404


def test_a_broken_page_shows_the_request_id_without_the_database(rf: Any) -> None:
    from portal.views import broken

    request = rf.get("/x")
    request.request_id = "abc123"
    answer = broken(request)
    assert answer.status_code == 500
    assert "abc123" in answer.content.decode()


def test_a_form_without_a_token_is_refused_with_a_sentence(alice: Any) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice, backend="allauth.account.auth_backends.AuthenticationBackend")
    answer = client.post(reverse("preferences"), {"theme": "dark"})
    assert answer.status_code == 403
    assert "Load the page again" in answer.content.decode()


def test_no_page_has_inline_script_or_style(as_user: Any, operator: Any) -> None:
    import re

    client = as_user(operator)
    for name in ("console:machines", "console:users", "projects:list", "console:system"):
        answer = client.get(reverse(name))
        page = answer.content.decode()
        assert not re.search(r"<script(?![^>]*\bsrc=)", page)
        assert not re.search(r"\sstyle=|\son[a-z]+=\"", page)
        assert "default-src 'self'" in answer["Content-Security-Policy"]
