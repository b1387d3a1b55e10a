# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""Pages of a project, and the one behind an invitation's link."""

from functools import partial
from typing import Any, ClassVar

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables

from common.errors import Conflict, Forbidden, Invalid, NotFound
from common.middleware import client_ip
from common.paging import paginate
from events import selectors as events
from notifications.selectors import is_mail_set_up
from projects import hooks, namespaces, selectors
from projects.access import PERMISSION_TEXT, Permission, denial
from projects.choices import Role
from projects.services import invitations, life, members
from projects.services.invitations import secret_keep, secret_of, secret_take
from projects.services.life import may_create
from projects.ui import forms
from projects.ui.base import PlatformView, ProjectView


def tabs(view: ProjectView, current: str) -> list[dict[str, Any]]:
    """The tabs that this person may open."""
    every = [
        ("overview", _("Overview"), Permission.PROJECT_READ),
        ("members", _("Members"), Permission.MEMBER_READ),
        ("events", _("Activity"), Permission.EVENT_READ),
        ("settings", _("Settings"), Permission.PROJECT_READ),
    ]
    if view.can(Permission.KUBE_USE) and namespaces.any_tenant_cluster():
        every.insert(3, ("kubectl", _("kubectl"), Permission.KUBE_USE))
    return [
        {
            "label": label,
            "url": reverse(f"projects:{name}", args=[view.project.slug]),
            "current": name == current,
        }
        for name, label, permission in every
        if view.can(permission)
    ]


def typed(request: HttpRequest, name: str) -> None:
    """Raise unless the name of what is lost was typed (the page of a destructive act)."""
    if request.POST.get("confirm", "").strip() != name:
        raise Invalid(_("Type “%(name)s” to confirm.") % {"name": name})


class ProjectList(PlatformView):
    required_platform: ClassVar = "user"
    template_name = "projects/list.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        search = request.GET.get("search", "")[:120].replace("\x00", "")
        show = request.GET.get("show", "")
        rows = selectors.projects_listed(
            self.principal, search=search, archived=None if show == "all" else show == "archived"
        )
        return self.render(
            {
                "page": paginate(request, rows),
                "search": search,
                "show": show,
                "may_create": may_create(self.principal),
            }
        )


class ProjectCreate(PlatformView):
    required_platform: ClassVar = "user"
    template_name = "projects/create.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        if not may_create(self.principal):
            raise Forbidden(_("Only operators make projects here. Ask one of them."))
        return self.render({"form": forms.ProjectForm()})

    def post(self, request: HttpRequest) -> HttpResponse:
        form = forms.ProjectForm(request.POST)
        if form.is_valid():
            made = forms.attempt(
                form,
                partial(life.project_create, principal=self.principal, **form.cleaned_data),
            )
            if made is not None:
                messages.success(request, _("The project “%(name)s” is there.") % {"name": made})
                return redirect("projects:overview", project=made.slug)
        return self.render({"form": form}, status=422)


class Overview(ProjectView):
    required_permissions: ClassVar = {"GET": Permission.PROJECT_READ}
    template_name = "projects/overview.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        happened = (
            events.of_project(self.project.uid)[:8] if self.can(Permission.EVENT_READ) else []
        )
        return self.render(
            {
                "tabs": tabs(self, "overview"),
                "members": selectors.members_by_rank(self.project)[:12],
                "member_count": selectors.members_of(self.project).count(),
                "contents": hooks.summaries(self.project),
                "events": happened,
            }
        )


class Members(ProjectView):
    required_permissions: ClassVar = {
        "GET": Permission.MEMBER_READ,
        "POST": Permission.MEMBER_MANAGE,
    }
    template_name = "projects/members.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        return self._page(self._form())

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        form = self._form(request.POST)
        if form.is_valid() and self._add(form):
            return redirect("projects:members", project=self.project.slug)
        return self._page(form, status=422)

    def _form(self, data: Any = None) -> forms.AddPersonForm:
        return forms.AddPersonForm(data, roles=self._roles())

    def _roles(self) -> list[Role]:
        if not self.can(Permission.MEMBER_MANAGE):
            return []
        return members.roles_grantable(self.principal, self.project)

    def _add(self, form: forms.AddPersonForm) -> bool:
        person, role = form.cleaned_data["person"].strip(), Role(form.cleaned_data["role"])
        try:
            user = selectors.user_to_add(person)
        except NotFound as error:
            if "@" not in person:
                form.add_error("person", str(error.message))
                return False
            return self._invite(form, person, role)
        act = partial(
            members.member_add,
            principal=self.principal,
            project=self.project,
            user=user,
            role=role,
        )
        if forms.attempt(form, act) is None:
            return False
        messages.success(self.request, _("%(who)s is a member now.") % {"who": user.label})
        return True

    def _invite(self, form: forms.AddPersonForm, email: str, role: Role) -> bool:
        act = partial(
            invitations.invitation_create,
            principal=self.principal,
            project=self.project,
            email=email,
            role=role,
        )
        if forms.attempt(form, act) is None:
            return False
        if is_mail_set_up():
            said = _("%(email)s is invited by mail.")
        else:
            said = _(
                "%(email)s is invited, but mail is not set up here: nothing was sent. Copy the "
                "link below and give it to them."
            )
        messages.success(self.request, said % {"email": email})
        return True

    def _page(self, form: forms.AddPersonForm, *, status: int = 200) -> HttpResponse:
        manages = self.can(Permission.MEMBER_MANAGE)
        invited = selectors.invitations_open(self.project) if manages else []
        roles = self._roles()
        words = self.request.GET.get("q", "").replace("\0", "")[:80]
        shown = paginate(self.request, selectors.members_by_rank(self.project, words))
        return self.render(
            {
                "tabs": tabs(self, "members"),
                "form": form,
                "page": shown,
                "q": words,
                "rows": [
                    {
                        "member": m,
                        "key": str(m.pk),
                        "is_me": m.user_id == self.principal.user.pk,
                        "editable": Role(m.role) in roles
                        and m.user_id != self.principal.user.pk
                        and not m.from_group,
                    }
                    for m in shown
                ],
                "roles": roles,
                "invitations": [
                    {"row": row, "link": invitations.invitation_link(row)} for row in invited
                ],
                "denied": "" if manages else denial(Permission.MEMBER_MANAGE),
            },
            status=status,
        )


class MemberRole(ProjectView):
    stands_on = Members
    required_permissions: ClassVar = {"POST": Permission.MEMBER_MANAGE}

    def post(self, request: HttpRequest, project: str, username: str) -> HttpResponse:
        form = forms.RoleForm(request.POST)
        user = selectors.member_user(self.project, username)
        if not form.is_valid():
            raise Conflict(_("There is no such role."))
        members.member_set_role(
            principal=self.principal,
            project=self.project,
            user=user,
            role=Role(form.cleaned_data["role"]),
        )
        messages.success(request, _("The role of %(who)s is changed.") % {"who": user.label})
        return redirect("projects:members", project=self.project.slug)


class MemberRemove(ProjectView):
    stands_on = Members
    required_permissions: ClassVar = {"POST": Permission.MEMBER_MANAGE}

    def post(self, request: HttpRequest, project: str, username: str) -> HttpResponse:
        user = selectors.member_user(self.project, username)
        typed(request, user.username)
        members.member_remove(principal=self.principal, project=self.project, user=user)
        messages.success(request, _("%(who)s is no longer a member.") % {"who": user.label})
        return redirect("projects:members", project=self.project.slug)


class Leave(ProjectView):
    stands_on = Members
    required_permissions: ClassVar = {"POST": Permission.PROJECT_READ}

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        typed(request, self.project.slug)
        members.member_leave(principal=self.principal, project=self.project)
        messages.success(request, _("You left “%(name)s”.") % {"name": self.project})
        return redirect("projects:list")


class InvitationRevoke(ProjectView):
    required_permissions: ClassVar = {"POST": Permission.MEMBER_MANAGE}

    def post(self, request: HttpRequest, project: str, uid: str) -> HttpResponse:
        row = selectors.invitation_get(self.project, uid)
        invitations.invitation_revoke(principal=self.principal, invitation=row)
        messages.success(request, _("The invitation is withdrawn."))
        return redirect("projects:members", project=self.project.slug)


# What the list of what happened can be narrowed to: the beginnings of verbs.
VERBS = (
    *("workspace", "volume", "load", "credential"),
    *("member", "invitation", "project", "quota"),
)


class Activity(ProjectView):
    required_permissions: ClassVar = {"GET": Permission.EVENT_READ}
    template_name = "projects/events.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        rows = events.of_project(self.project.uid)
        if verb := request.GET.get("verb", "")[:64].replace("\x00", ""):
            rows = rows.filter(verb__startswith=verb)
        return self.render(
            {
                "tabs": tabs(self, "events"),
                "page": paginate(request, rows),
                "verb": verb,
                "verbs": VERBS,
            }
        )


class Settings(ProjectView):
    """Everybody sees it; what one may not do is shown with its reason."""

    required_permissions: ClassVar = {
        "GET": Permission.PROJECT_READ,
        "POST": Permission.PROJECT_UPDATE,
    }
    template_name = "projects/settings.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        row = self.project
        form = forms.ProjectEditForm({"name": row.name, "description": row.description})
        return self._page(form)

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        form = forms.ProjectEditForm(request.POST)
        if form.is_valid():
            act = partial(
                life.project_update,
                principal=self.principal,
                project=self.project,
                **form.cleaned_data,
            )
            if forms.attempt(form, act) is not None:
                messages.success(request, _("Saved."))
                return redirect("projects:settings", project=self.project.slug)
        return self._page(form, status=422)

    def _page(self, form: forms.ProjectEditForm, *, status: int = 200) -> HttpResponse:
        held = hooks.summaries(self.project)
        return self.render(
            {
                "tabs": tabs(self, "settings"),
                "form": form,
                "reach": self._reach(),
                "lost": [s.text for s in held] or [_("The project itself: it holds nothing.")],
                "running": hooks.running_words(held),
                "denied": {
                    p.name.lower(): denial(p)
                    for p in (
                        Permission.PROJECT_UPDATE,
                        Permission.PROJECT_ARCHIVE,
                        Permission.PROJECT_DELETE,
                    )
                    if not self.can(p)
                },
            },
            status=status,
        )

    def _reach(self) -> list[dict[str, Any]]:
        """Every cluster and whether the project is limited to it; for operators only."""
        if not self.principal.is_operator:
            return []
        mine = set(namespaces.clusters_of(self.project.uid))
        return [
            {"key": key, "name": name, "chosen": key in mine}
            for key, name in namespaces.all_clusters()
        ]


class Archive(ProjectView):
    stands_on = Settings
    required_permissions: ClassVar = {"POST": Permission.PROJECT_ARCHIVE}

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        life.project_archive(
            principal=self.principal,
            project=self.project,
            confirm_stop=request.POST.get("confirm_stop") == "yes",
        )
        messages.success(request, _("The project is archived."))
        return redirect("projects:settings", project=self.project.slug)


class Unarchive(ProjectView):
    required_permissions: ClassVar = {"POST": Permission.PROJECT_ARCHIVE}

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        life.project_unarchive(principal=self.principal, project=self.project)
        messages.success(request, _("The project is back."))
        return redirect("projects:settings", project=self.project.slug)


class Delete(ProjectView):
    stands_on = Settings
    required_permissions: ClassVar = {"POST": Permission.PROJECT_DELETE}

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        life.project_request_delete(
            principal=self.principal,
            project=self.project,
            confirm=request.POST.get("confirm", ""),
        )
        messages.success(
            request, _("“%(name)s” is being deleted with all it holds.") % {"name": self.project}
        )
        return redirect("projects:list")


class PermissionTable(PlatformView):
    required_platform: ClassVar = "user"
    template_name = "projects/permissions.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        return self.render(
            {
                "table": selectors.permission_table(),
                "roles": [r.label for r in Role],
                "texts": PERMISSION_TEXT,
            }
        )


# The page behind an invitation's link. Open to visitors: they may have no account yet.
#
# The secret goes from the address into the session at once, so that neither history, logs of later
# requests nor a Referer carry it.


@method_decorator([login_not_required, never_cache, sensitive_variables("secret")], name="dispatch")
class OpenInvitation(View):
    http_method_names = ["get"]

    def get(self, request: HttpRequest, secret: str) -> HttpResponse:
        invitations.invitation_find(secret)
        secret_keep(request, secret)
        return redirect("projects:invitation-accept")


@method_decorator([login_not_required, never_cache], name="dispatch")
class AcceptInvitation(View):
    http_method_names = ["get", "post"]

    def get(self, request: HttpRequest) -> HttpResponse:
        row = invitations.invitation_find(secret_of(request))
        return render(request, "projects/invitation.html", {"invitation": row})

    def post(self, request: HttpRequest) -> HttpResponse:
        user: Any = request.user
        if not user.is_authenticated:
            return redirect("projects:invitation-accept")
        secret = secret_take(request)
        row = invitations.invitation_accept(user=user, secret=secret, ip=client_ip(request))
        if row.project is None:
            return redirect("/")
        return redirect("projects:overview", project=row.project.slug)
