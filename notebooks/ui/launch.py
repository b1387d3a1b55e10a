"""Starting: by one press or by the form with all fields."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from common.errors import BerthError, Conflict, Forbidden, Invalid
from common.ui.responses import go, refuse, to_yaml
from credentials.selectors import credentials_named
from notebooks import selectors
from notebooks.kind import WORKSPACE
from notebooks.models import Preset
from notebooks.ui.command import plan_command
from notebooks.ui.forms import FORM_FIELDS, SizeForm, launch_form
from projects.access import roles_kept
from work.services import Plan, workload_create, workload_plan
from work.services.base import require_startable
from work.services.manifest import manifest_wrap
from work.ui.base import WorkView


class Launch(WorkView):
    """One press (a preset and nothing else), or the form with all fields."""

    demands: ClassVar[Mapping[str, str]] = {"GET": "create", "POST": "create"}
    template_name = "notebooks/launch.html"
    partial_name = "notebooks/_launch_form.html"

    @roles_kept()
    def get(self, request: HttpRequest, project: str) -> HttpResponse:  # noqa: ARG002
        require_startable(self.principal, self.project, WORKSPACE)
        preset = preset_of(self, request.GET.get("preset", ""))
        form = launch_form(self.principal, self.project, preset)
        form.choose_volume(self.principal, request.GET.get("volume", "")[:36])
        return self._page(preset, form)

    def post(self, request: HttpRequest, project: str) -> HttpResponse:  # noqa: ARG002
        preset = preset_of(self, request.POST.get("preset", ""))
        form = launch_form(self.principal, self.project, preset, request.POST)
        if not form.is_valid():
            return self._page(preset, form, status=422)
        try:
            row = workload_create(
                principal=self.principal,
                project=self.project,
                kind=WORKSPACE,
                said={"preset": preset, **form.said()},
                nonce=request.POST.get("nonce", ""),
                must_fit=True,
            )
        except (Invalid, Conflict, Forbidden) as error:
            if not set(form.fields) & set(
                request.POST
            ):  # a press on a card: the form begins with the preset's
                form = launch_form(self.principal, self.project, preset)
                request.berth_error = error  # type: ignore[attr-defined]  # as ``refuse`` does
                return self._page(preset, form, error.status, refusal=error.message)
            return self._page(preset, form, refuse(request, form, error, FORM_FIELDS))
        return go(request, f"{row.get_absolute_url()}?open=1")

    def _page(
        self, preset: Preset, form: SizeForm, status: int = 200, refusal: str = ""
    ) -> HttpResponse:
        """``refusal``, and what is wrong with the form, stand above it and nowhere else."""
        said = plan_context(self, preset, form)
        if form.is_bound and not form.is_valid():
            said["problems"] = []
        context = {
            "form": form,
            "preset": preset,
            "presets": selectors.presets_for(self.project),
            "image_check_url": reverse("images:check", args=[self.project.slug]),
            "nonce": self.request.POST.get("nonce") or secrets.token_urlsafe(12),
            "refusal": refusal,
            **said,
        }
        return self.render(context, status=status)


class LaunchPlan(WorkView):
    """The foot of the form: what it costs, what it does to the limits, when it would start."""

    demands: ClassVar[Mapping[str, str]] = {"POST": "create"}
    template_name = "work/_plan.html"

    @roles_kept()
    def post(self, request: HttpRequest, project: str) -> HttpResponse:  # noqa: ARG002
        preset = preset_of(self, request.POST.get("preset", ""))
        form = launch_form(self.principal, self.project, preset, request.POST)
        return self.render(plan_context(self, preset, form))


def preset_of(view: WorkView, slug: str) -> Preset:
    if slug:
        return selectors.preset_get(view.project, slug[:40])
    return selectors.default_preset(view.project)


def plan_context(view: WorkView, preset: Preset, form: SizeForm) -> dict[str, Any]:
    """Return the plan with the same thing as YAML and as a command, or what is wrong."""
    if form.is_bound and not form.is_valid():
        problems = [str(error) for errors in form.errors.values() for error in errors]
        return {"plan": None, "problems": problems}
    said = form.said() if form.is_bound else {}
    try:
        plan = workload_plan(
            principal=view.principal,
            project=view.project,
            kind=WORKSPACE,
            said={"preset": preset, **said},
            fleet=form.fleet,
        )
    except BerthError as error:
        return {"plan": None, "problems": [error.message]}
    slug, several = view.project.slug, "cluster" in form.fields
    keys = credentials_named(view.principal, view.project, plan.attached.credentials)
    return {
        "plan": plan,
        "problems": [],
        "plan_yaml": plan_yaml(plan, slug, keys),
        "plan_command": plan_command(plan, preset, slug, keys, several=several),
    }


def plan_yaml(plan: Plan, project: str, credentials: Sequence[str]) -> str:
    told = {**WORKSPACE.beside_of(plan.row), **WORKSPACE.own.read(plan.row, private=True)}
    told |= {**plan.attached.public(), "credentials": list(credentials)}
    return to_yaml(manifest_wrap(WORKSPACE, plan.name, project, told))
