"""People: find, make, disable, roles, passwords, sessions and tokens."""

from typing import Any, ClassVar

from allauth.usersessions.models import UserSession
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from accounts.models import ApiToken, User
from accounts.selectors import device_of, refusal_of
from accounts.services import people
from common.errors import Invalid
from common.ui.responses import show_error
from console import forms, selectors, tables
from console.views.base import ConsoleView, ListView, user_from
from events.models import Event
from notebooks.models import Workspace
from projects.models import Membership


class UserList(ListView):
    table_class = tables.UserTable
    filter_class = forms.UserFilter

    def rows(self, chosen: dict[str, Any]) -> QuerySet[User]:
        return selectors.users(chosen)

    def extra(self) -> dict[str, Any]:
        return {
            "heading": _("People"),
            "action_url": reverse("console:user-create"),
            "action_label": _("New person"),
        }


class UserCreate(ConsoleView):
    """A local account with a generated password, shown once."""

    required_platform: ClassVar[Any] = "operator"
    template_name = "console/form.html"

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        return self._page(forms.UserCreateForm())

    def post(self, request: HttpRequest) -> HttpResponse:
        form = forms.UserCreateForm(request.POST)
        if not form.is_valid():
            return self._page(form, 400)
        try:
            user = people.user_create(who=self.principal, **form.cleaned_data)
        except Invalid as error:
            show_error(form, error)
            return self._page(form, 400)
        password = people.password_reset_by_operator(who=self.principal, user=user)
        return self.render(
            {"person": user, "password": password}, template="console/password.html", status=201
        )

    def _page(self, form: forms.UserCreateForm, status: int = 200) -> HttpResponse:
        context = {
            "form": form,
            "heading": _("New person"),
            "submit": _("Make the account"),
            "back_url": reverse("console:users"),
            "back_label": _("People"),
            "note": _("A password is generated and shown once on the next page."),
        }
        return self.render(context, status=status)


class PersonView(ConsoleView):
    """One person, from the URL."""

    @property
    def person(self) -> User:
        return user_from(self.kwargs["user"])

    def here(self, person: User) -> HttpResponse:
        return HttpResponseRedirect(reverse("console:user", kwargs={"user": person.uid}))


class UserDetail(PersonView):
    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "console/user.html"

    def get(self, request: HttpRequest, user: Any) -> HttpResponse:  # noqa: ARG002
        person = self.person
        live = UserSession.objects.filter(user=person).order_by("-last_seen_at")[:20]
        rows = [{"row": row, "device": device_of(row.user_agent)} for row in live]
        return self.render(
            {
                "person": person,
                "refused": refusal_of(person),
                "role_form": forms.RoleForm(initial={"platform_role": person.platform_role}),
                "sessions": rows,
                "tokens": ApiToken.objects.filter(user=person).order_by("-id")[:20],
                "memberships": Membership.objects.filter(
                    user=person, project__deleted_at__isnull=True
                ).select_related("project"),
                "workspaces": Workspace.objects.filter(
                    owner=person, deleted_at__isnull=True
                ).select_related("project")[:20],
                "events": Event.objects.filter(target_uid=str(person.uid)).order_by("-id")[:10],
            }
        )


class UserRole(PersonView):
    required_platform: ClassVar[Any] = {"POST": "operator"}

    def post(self, request: HttpRequest, user: Any) -> HttpResponse:  # noqa: ARG002
        person = self.person
        role = request.POST.get("platform_role", "")
        people.set_platform_role(who=self.principal, user=person, platform_role=role)
        messages.success(request, _("The role is changed; it holds from the next request."))
        return self.here(person)


class UserState(PersonView):
    stands_on = UserDetail
    required_platform: ClassVar[Any] = {"POST": "operator"}

    def post(self, request: HttpRequest, user: Any) -> HttpResponse:  # noqa: ARG002
        person = self.person
        if request.POST.get("state") == "enable":
            people.user_enable(who=self.principal, user=person)
            messages.success(request, _("%(name)s may sign in again.") % {"name": person.label})
            return self.here(person)
        if request.POST.get("confirm", "").strip() != person.username:
            raise Invalid(_("The typed name is not the username. Nothing was changed."))
        people.user_disable(who=self.principal, user=person)
        sentence = _("%(name)s is out: sessions, tokens and running work end within a minute.")
        messages.success(request, sentence % {"name": person.label})
        return self.here(person)


class UserPassword(PersonView):
    required_platform: ClassVar[Any] = {"POST": "operator"}

    def post(self, request: HttpRequest, user: Any) -> HttpResponse:  # noqa: ARG002
        person = self.person
        password = people.password_reset_by_operator(who=self.principal, user=person)
        return self.render(
            {"person": person, "password": password}, template="console/password.html"
        )


class UserSessions(PersonView):
    """End all sessions, or revoke one token."""

    required_platform: ClassVar[Any] = {"POST": "operator"}

    def post(self, request: HttpRequest, user: Any) -> HttpResponse:  # noqa: ARG002
        person = self.person
        if uid := request.POST.get("token"):
            people.token_revoke_by_operator(who=self.principal, user=person, uid=uid)
            messages.success(request, _("The token is revoked."))
        else:
            people.sessions_end_by_operator(who=self.principal, user=person)
            messages.success(request, _("All sessions of this person are ended."))
        return self.here(person)


class UserLimits(PersonView):
    """Ceilings for one person over all projects."""

    template_name = "console/limits.html"

    def get(self, request: HttpRequest, user: Any) -> HttpResponse:  # noqa: ARG002
        from console.views.projects import limits_page

        person = self.person
        return limits_page(self, None, user=person)

    def post(self, request: HttpRequest, user: Any) -> HttpResponse:  # noqa: ARG002
        from console.views.projects import limits_post

        return limits_post(self, request, user=self.person)
