"""Operators say on a page which group of the identity provider means which role."""

from django.urls import reverse

from projects.models import GroupRole, Membership
from projects.services.members import groups_sync


def test_a_group_gets_a_role_on_the_page_and_a_person_gets_it_at_sign_in(
    as_user, operator, project, charlie
):
    browser = as_user(operator)
    given = {"group": "vision-team", "project": project.slug, "role": "member"}
    answer = browser.post(reverse("console:group-create"), given)
    assert answer.status_code == 302
    groups_sync(charlie, ["vision-team"])
    assert Membership.objects.get(project=project, user=charlie).role == "member"
    assert "vision-team" in browser.get(reverse("console:groups")).content.decode()


def test_a_role_that_is_taken_from_the_group_ends_at_the_next_sign_in(
    as_user, operator, project, charlie
):
    row = GroupRole.objects.create(group="vision-team", project=project, role="member")
    groups_sync(charlie, ["vision-team"])
    as_user(operator).post(reverse("console:group-delete", args=[row.pk]))
    groups_sync(charlie, ["vision-team"])
    assert not Membership.objects.filter(project=project, user=charlie).exists()


def test_a_group_without_a_role_is_refused_with_a_sentence(as_user, operator):
    answer = as_user(operator).post(reverse("console:group-create"), {"group": "nobody"})
    assert answer.status_code == 400
    assert "A group means a role in a project" in answer.content.decode()


def test_auditors_read_and_do_not_change(as_user, auditor, alice, project):
    row = GroupRole.objects.create(group="vision-team", project=project, role="member")
    assert as_user(auditor).get(reverse("console:groups")).status_code == 200
    denied = as_user(auditor).post(reverse("console:group-delete", args=[row.pk]))
    assert denied.status_code == 403
    assert as_user(alice).get(reverse("console:groups")).status_code in {403, 404}
