"""People, projects and groups: who they are, what they may do and take."""

from typing import Any, ClassVar

from allauth.usersessions.models import UserSession
from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from accounts.models import ApiToken, User
from accounts.selectors import device_of, refusal_of, user_get
from accounts.services import people
from clusters.models import Flavor
from common.errors import BerthError, Invalid, NotFound
from common.ui.responses import show_error
from console import forms, selectors, tables
from console.views.base import ConsoleView, ListView
from events.models import Event
from notebooks.models import Workspace
from projects.models import GroupRole, Membership, Project
from projects.services import members
from quotas import services as quotas
from quotas.models import Limit


class ProjectList(ListView):
    table_class = tables.ProjectTable
    filter_class = forms.ProjectFilter

    def rows(self, chosen: dict[str, Any]) -> QuerySet[Project]:
        return selectors.projects(chosen)

    def extra(self) -> dict[str, Any]:
        return {"heading": _("Projects")}


def project_of(uid: Any) -> Project:
    row = Project.objects.filter(uid=uid, deleted_at__isnull=True).first()
    if row is None:
        raise NotFound(_("There is no such project."))
    return row


def limits_page(
    view: ConsoleView,
    form: forms.LimitsForm | None,
    *,
    project: Project | None = None,
    user: User | None = None,
    effects: list[quotas.Effect] | None = None,
    status: int = 200,
) -> HttpResponse:
    """Draw the editor; ``effects`` is the panel computed before (or after) saving."""
    rows = Limit.objects.filter(project=project, user=user)
    initial = forms.LimitsForm.initial_of({row.resource: row.amount for row in rows})
    back = "console:projects" if project else "console:users"
    context = {
        "form": form or forms.LimitsForm(initial=initial, flavors=_flavors()),
        "effects": effects,
        "subject": project.name if project else user.label if user else "",
        "back_url": reverse(back),
        "back_label": _("Projects") if project else _("People"),
    }
    return view.render(context, status=status)


def limits_post(
    view: ConsoleView,
    request: HttpRequest,
    *,
    project: Project | None = None,
    user: User | None = None,
) -> HttpResponse:
    """``preview`` only computes what would follow; otherwise save and say what follows."""
    form = forms.LimitsForm(request.POST, flavors=_flavors())
    if not form.is_valid():
        return limits_page(view, form, project=project, user=user, status=400)
    preview = "preview" in request.POST
    try:
        if preview:
            effects = quotas.limits_effect(limits=form.limits(), project=project, user=user)
        else:
            effects = quotas.limits_set(
                principal=view.principal, limits=form.limits(), project=project, user=user
            )
    except Invalid as error:
        show_error(form, error)
        return limits_page(view, form, project=project, user=user, status=400)
    if preview:
        return limits_page(view, form, project=project, user=user, effects=effects)
    messages.success(request, _("The limits are saved."))
    for effect in effects:
        if effect.is_over:
            messages.warning(request, effect.sentence)
    return HttpResponseRedirect(request.path)


def _flavors() -> list[tuple[str, str]]:
    return list(Flavor.objects.order_by("position", "name").values_list("name", "label"))


class Limits(ConsoleView):
    """Ceilings of a project: everything its members may take together."""

    template_name = "console/limits.html"

    def get(self, request: HttpRequest, uid: Any) -> HttpResponse:  # noqa: ARG002
        return limits_page(self, None, project=project_of(uid))

    def post(self, request: HttpRequest, uid: Any) -> HttpResponse:
        return limits_post(self, request, project=project_of(uid))


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


class UserLimits(PersonView):
    """Ceilings for one person over all projects."""

    template_name = "console/limits.html"

    def get(self, request: HttpRequest, user: Any) -> HttpResponse:  # noqa: ARG002

        person = self.person
        return limits_page(self, None, user=person)

    def post(self, request: HttpRequest, user: Any) -> HttpResponse:  # noqa: ARG002

        return limits_post(self, request, user=self.person)


class GroupList(ListView):
    table_class = tables.GroupRoleTable
    filter_class = forms.GroupFilter

    def rows(self, chosen: dict[str, Any]) -> QuerySet[GroupRole]:
        rows = GroupRole.objects.select_related("project")
        if word := chosen.get("q"):
            rows = rows.filter(Q(group__icontains=word) | Q(project__slug__icontains=word))
        return rows

    def extra(self) -> dict[str, Any]:
        return {
            "heading": _("Groups"),
            "action_url": reverse("console:group-create"),
            "action_label": _("Let a group mean a role"),
            "empty_icon": "users-group",
            "empty_title": _("No group means a role"),
            "empty_text": _(
                "Who signs in with the identity provider gets the roles of their groups, "
                "and loses them when they leave the group."
            ),
        }


class GroupCreate(ConsoleView):
    required_platform: ClassVar[Any] = "operator"
    template_name = "console/form.html"

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        return self.render(self._page(forms.GroupForm()))

    def post(self, request: HttpRequest) -> HttpResponse:
        form = forms.GroupForm(request.POST)
        if form.is_valid():
            try:
                row = members.group_role_set(principal=self.principal, **form.cleaned_data)
            except BerthError as error:
                show_error(form, error)
            else:
                messages.success(
                    request,
                    _("“%(group)s” has its role. It is given at the next sign-in.")
                    % {"group": row.group},
                )
                return HttpResponseRedirect(reverse("console:groups"))
        return self.render(self._page(form), status=400)

    def _page(self, form: forms.GroupForm) -> dict[str, Any]:
        return {
            "form": form,
            "heading": _("Let a group mean a role"),
            "back_url": reverse("console:groups"),
            "back_label": _("Groups"),
            "submit": _("Save"),
            "note": _("What was given by hand stays as it is."),
        }


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
