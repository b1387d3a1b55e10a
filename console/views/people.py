"""People, projects and groups: who they are, what they may do and take."""

from typing import Any, ClassVar

from allauth.usersessions.models import UserSession
from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from accounts.models import ApiToken, User
from accounts.selectors import device_of, refusal_of, user_get
from accounts.services import people
from clusters.models import Flavor
from common.errors import Invalid, NotFound
from common.ui.responses import show_error
from console import forms, selectors, tables
from console.views.base import ConsoleView, FormPage, ListView
from events.models import Event
from notebooks.models import Workspace
from projects.models import GroupRole, Membership, Project
from projects.services import members
from quotas import services as quotas
from quotas.models import Limit
from work.fields import Text


class ProjectList(ListView):
    table_class = tables.ProjectTable
    filter_class = forms.ProjectFilter
    heading = _lazy("Projects")

    def rows(self, chosen: dict[str, Any]) -> QuerySet[Project]:
        return selectors.projects(chosen)


def _flavors() -> list[tuple[str, str]]:
    return list(Flavor.objects.order_by("position", "name").values_list("name", "label"))


class Limits(ConsoleView):
    """Ceilings of a project: everything its members may take together.

    ``preview`` only computes what would follow of it, beside the form.
    """

    template_name = "console/limits.html"
    back: ClassVar[tuple[str, Text]] = ("console:projects", _lazy("Projects"))

    def whose(self) -> dict[str, Any]:
        """Return ``project`` or ``user``, as the services call them."""
        uid = self.kwargs["uid"]
        row = Project.objects.filter(uid=uid, deleted_at__isnull=True).first()
        if row is None:
            raise NotFound(_("There is no such project."))
        return {"project": row}

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:  # noqa: ARG002
        whose = {"project": None, "user": None, **self.whose()}
        rows = Limit.objects.filter(**whose, each=False).values_list("resource", "amount")
        initial = forms.LimitsForm.initial_of(dict(rows))
        return self._shown(forms.LimitsForm(initial=initial, flavors=_flavors()))

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:  # noqa: ARG002
        whose = self.whose()
        form = forms.LimitsForm(request.POST, flavors=_flavors())
        if not form.is_valid():
            return self._shown(form, status=400)
        try:
            if "preview" in request.POST:
                effects = quotas.limits_effect(limits=form.limits(), **whose)
                return self._shown(form, effects=effects)
            effects = quotas.limits_set(principal=self.principal, limits=form.limits(), **whose)
        except Invalid as error:
            show_error(form, error)
            return self._shown(form, status=400)
        messages.success(request, _("The limits are saved."))
        for effect in effects:
            if effect.is_over:
                messages.warning(request, effect.sentence)
        return HttpResponseRedirect(request.path)

    def _shown(
        self,
        form: forms.LimitsForm,
        *,
        effects: list[quotas.Effect] | None = None,
        status: int = 200,
    ) -> HttpResponse:
        (subject,) = self.whose().values()
        url, label = self.back
        context = {
            "form": form,
            "effects": effects,
            "subject": subject.label if isinstance(subject, User) else subject.name,
            "back_url": reverse(url),
            "back_label": label,
        }
        return self.render(context, status=status)


class UserList(ListView):
    table_class = tables.UserTable
    filter_class = forms.UserFilter
    heading = _lazy("People")
    new = "console:user-create", _lazy("New person")

    def rows(self, chosen: dict[str, Any]) -> QuerySet[User]:
        return selectors.users(chosen)


class UserCreate(FormPage):
    """A local account with a generated password, shown once."""

    required_platform: ClassVar[Any] = "operator"
    form_class = forms.UserCreateForm
    heading, submit = _lazy("New person"), _lazy("Make the account")
    note = _lazy("A password is generated and shown once on the next page.")
    back = "console:users", _lazy("People")

    def save(self, row: None, form: Any) -> HttpResponse:  # noqa: ARG002
        user = people.user_create(who=self.principal, **form.cleaned_data)
        password = people.password_reset_by_operator(who=self.principal, user=user)
        return self.render(
            {"person": user, "password": password}, template="console/password.html", status=201
        )


class PersonView(ConsoleView):
    """One person, from the URL."""

    @property
    def person(self) -> User:
        return user_get(self.kwargs["user"])

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


class UserLimits(Limits):
    """Ceilings for one person over all projects."""

    back = UserCreate.back

    def whose(self) -> dict[str, Any]:
        return {"user": user_get(self.kwargs["user"])}


class GroupList(ListView):
    table_class = tables.GroupRoleTable
    filter_class = forms.GroupFilter
    heading = _lazy("Groups")
    new = "console:group-create", _lazy("Let a group mean a role")
    empty = (
        "users-group",
        _lazy("No group means a role"),
        _lazy(
            "Who signs in with the identity provider gets the roles of their groups, "
            "and loses them when they leave the group."
        ),
    )

    def rows(self, chosen: dict[str, Any]) -> QuerySet[GroupRole]:
        rows = GroupRole.objects.select_related("project")
        if word := chosen.get("q"):
            rows = rows.filter(Q(group__icontains=word) | Q(project__slug__icontains=word))
        return rows


class GroupCreate(FormPage):
    required_platform: ClassVar[Any] = "operator"
    form_class = forms.GroupForm
    heading = _lazy("Let a group mean a role")
    note = _lazy("What was given by hand stays as it is.")
    back = "console:groups", _lazy("Groups")

    def save(self, row: None, form: Any) -> str:  # noqa: ARG002
        made = members.group_role_set(principal=self.principal, **form.cleaned_data)
        said = _("“%(group)s” has its role. It is given at the next sign-in.")
        messages.success(self.request, said % {"group": made.group})
        return reverse("console:groups")


class GroupDelete(ConsoleView):
    required_platform: ClassVar[Any] = {"POST": "operator"}

    def post(self, request: HttpRequest, row: int) -> HttpResponse:
        found = GroupRole.objects.select_related("project").filter(pk=row).first()
        if found is None:
            raise NotFound(_("There is no such group."))
        members.group_role_remove(principal=self.principal, row=found)
        messages.success(
            request,
            _("“%(group)s” means nothing more; roles it gave end at each person's next sign-in.")
            % {"group": found.group},
        )
        return HttpResponseRedirect(reverse("console:groups"))
