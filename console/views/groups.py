"""Which group of the identity provider means which role; followed at each sign-in."""

from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from accounts.models import PlatformRole
from common.errors import BerthError, NotFound
from common.ui.responses import show_error
from console.fields import search_field
from console.tables import GroupRoleTable
from console.views.base import ConsoleView, FilterForm, ListView
from projects import services
from projects.choices import Role
from projects.models import GroupRole, Project


class GroupFilter(FilterForm):
    q = search_field()


class GroupForm(forms.Form):
    group = forms.CharField(
        label=_("Group"),
        max_length=120,
        help_text=_("Exactly as the identity provider names it in its groups claim."),
    )
    project = forms.ModelChoiceField(
        label=_("Project"),
        queryset=Project.objects.none(),
        required=False,
        to_field_name="slug",
        empty_label=_("None: a role on the platform"),
    )
    role = forms.ChoiceField(
        label=_("Role in the project"), required=False, choices=[("", "—"), *Role.choices]
    )
    platform_role = forms.ChoiceField(
        label=_("Role on the platform"),
        required=False,
        choices=[
            ("", "—"),
            (PlatformRole.OPERATOR.value, PlatformRole.OPERATOR.label),
            (PlatformRole.AUDITOR.value, PlatformRole.AUDITOR.label),
        ],
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["project"]
        field.queryset = Project.objects.filter(deleted_at__isnull=True).order_by("slug")  # type: ignore[attr-defined]


class GroupList(ListView):
    table_class = GroupRoleTable
    filter_class = GroupFilter

    def rows(self, chosen: dict[str, Any]) -> QuerySet[GroupRole]:
        rows = GroupRole.objects.select_related("project")
        if word := chosen.get("q"):
            rows = rows.filter(Q(group__icontains=word) | Q(project__slug__icontains=word))
        return rows

    def extra(self) -> dict[str, Any]:
        return {
            "heading": _t("Groups"),
            "action_url": reverse("console:group-create"),
            "action_label": _t("Let a group mean a role"),
            "empty_icon": "users-group",
            "empty_title": _t("No group means a role"),
            "empty_text": _t(
                "Who signs in with the identity provider gets the roles of their groups, "
                "and loses them when they leave the group."
            ),
        }


class GroupCreate(ConsoleView):
    required_platform: ClassVar[Any] = "operator"
    template_name = "console/form.html"

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        return self.render(self._page(GroupForm()))

    def post(self, request: HttpRequest) -> HttpResponse:
        form = GroupForm(request.POST)
        if form.is_valid():
            try:
                row = services.group_role_set(principal=self.principal, **form.cleaned_data)
            except BerthError as error:
                show_error(form, error)
            else:
                messages.success(
                    request,
                    _t("“%(group)s” has its role. It is given at the next sign-in.")
                    % {"group": row.group},
                )
                return HttpResponseRedirect(reverse("console:groups"))
        return self.render(self._page(form), status=400)

    def _page(self, form: GroupForm) -> dict[str, Any]:
        return {
            "form": form,
            "heading": _t("Let a group mean a role"),
            "back_url": reverse("console:groups"),
            "back_label": _t("Groups"),
            "submit": _t("Save"),
            "note": _t("What was given by hand stays as it is."),
        }


class GroupDelete(ConsoleView):
    required_platform: ClassVar[Any] = {"POST": "operator"}

    def post(self, request: HttpRequest, row: int) -> HttpResponse:
        found = GroupRole.objects.select_related("project").filter(pk=row).first()
        if found is None:
            raise NotFound(_t("There is no such group."))
        services.group_role_remove(principal=self.principal, row=found)
        messages.success(
            request,
            _t("“%(group)s” means nothing more; roles it gave end at each person's next sign-in.")
            % {"group": found.group},
        )
        return HttpResponseRedirect(reverse("console:groups"))
