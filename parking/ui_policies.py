"""Pages of idle policies: the list, one of them, and what it would have given back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.errors import BerthError, Invalid
from common.paging import paginate
from common.ui.responses import refuse
from parking import dry_run, selectors, services, words
from parking.models import IdlePolicy
from projects.models import Project
from projects.ui.base import PlatformView
from queues.models import Queue
from work import kinds


def kind_choices() -> list[tuple[str, str]]:
    """Return the kinds of work that may hold GPUs, with their words."""
    held = [kind for kind in kinds.kinds() if "gpus" in kind.table]
    return [(kind.word, str(kind.many)) for kind in held]


def policy_kind_choices() -> list[tuple[str, str]]:
    """Return the same, and the classes of a kind that has several."""
    classes = [
        (word, f"{kind.many}: {label}")
        for kind in kinds.kinds()
        if "gpus" in kind.table
        for word, label in kind.classes.items()
    ]
    return [*kind_choices(), *classes]


@dataclass(frozen=True)
class Listed:
    """A policy as the list shows it."""

    policy: IdlePolicy
    scope: str
    rule: str
    kind: str


class PolicyList(PlatformView):
    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "parking/policies.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        page = paginate(request, selectors.policies())
        named = dict(policy_kind_choices())
        rows = [
            Listed(
                one,
                words.scope_words(one),
                words.rule_words(one),
                named.get(one.kind, _t("Any that does not end by itself")),
            )
            for one in page.object_list
        ]
        return self.render({"page": page, "rows": rows, "may_change": self.principal.is_operator})


class PolicyForm(forms.ModelForm):
    """A policy; whose it is can be said of a new one only."""

    whose = forms.ChoiceField(label=_("For"), required=False)
    kind = forms.ChoiceField(label=_("Kind of work"), required=False)
    weekdays = forms.MultipleChoiceField(
        label=_("Idle time counts on"),
        choices=list(words.DAYS.items()),
        widget=forms.CheckboxSelectMultiple,
    )

    class Meta:
        model = IdlePolicy
        fields = (
            *("kind", "minutes", "gpu_below", "cpu_below", "memory_below", "network_below"),
            *("grace", "act", "extension", "extensions"),
            *("weekdays", "from_hour", "until_hour", "zone", "state"),
        )
        help_texts: ClassVar = {
            "minutes": _("Minutes in which all of the following is quiet."),
            "gpu_below": _("Percent, of the busiest GPU."),
            "cpu_below": _(
                "Thousandths of a CPU. A server that only waits takes less than 50; loading data "
                "or a terminal that computes takes more."
            ),
            "memory_below": _("MiB of the GPUs; empty: not asked."),
            "network_below": _("KiB a second, where it is measured; empty: not asked."),
            "grace": _("Minutes between the warning and what follows."),
            "act": _("Files, address, packages and settings are kept in each case."),
            "extension": _("Minutes that one press on “keep it” gives; 0: it can't be put off."),
            "extensions": _("So many presses need no reason; each after them does."),
            "from_hour": _("An hour of the day, in the zone below."),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        fields: Any = self.fields
        fields["kind"].choices = [
            ("", _t("Any that does not end by itself")),
            *policy_kind_choices(),
        ]
        self.initial["weekdays"] = list(self.instance.weekdays)
        if self.instance.pk:
            del fields["whose"]
            return
        projects = Project.objects.filter(deleted_at__isnull=True).order_by("name")
        above = Queue.objects.filter(project__isnull=True).order_by("name")
        fields["whose"].choices = [
            ("", _t("The whole platform")),
            (_t("Projects"), [(f"project:{p.uid}", f"{p.name} ({p.slug})") for p in projects]),
            (_t("Organisations"), [(f"organisation:{q.uid}", q.name) for q in above]),
        ]
        self.order_fields(["whose"])

    def clean_weekdays(self) -> str:
        return "".join(self.cleaned_data["weekdays"])

    def validate_unique(self) -> None:
        """The service says it in words."""

    def values(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in services.policies.FIELDS}

    def owner(self) -> dict[str, Any]:
        """Return whose it is, as the service takes it."""
        word, _colon, uid = self.cleaned_data.get("whose", "").partition(":")
        if not word:
            return {}
        rows: Any = Project if word == "project" else Queue
        return {word: rows.objects.get(uid=uid)}


class PolicyEdit(PlatformView):
    """One policy, or a new one; ``look``: what it would have given back, before it is saved."""

    required_platform: ClassVar[Any] = {"GET": "auditor", "POST": "operator"}
    template_name = "parking/policy.html"

    def get(self, request: HttpRequest, policy: Any = None) -> HttpResponse:
        row = selectors.policy_get(policy) if policy else None
        said = {k: request.GET[k] for k in ("gpu_below", "minutes", "kind") if k in request.GET}
        form = PolicyForm(instance=row, initial=said)
        found = dry_run.look_back(row, days=7) if row else None
        return self._page(row, form, found=found)

    def post(self, request: HttpRequest, policy: Any = None) -> HttpResponse:
        row = selectors.policy_get(policy) if policy else None
        form = PolicyForm(request.POST, instance=selectors.policy_get(policy) if policy else None)
        if not form.is_valid():
            return self._page(row, form, 422)
        who = self.principal
        try:
            if days := request.POST.get("look", ""):
                return self._page(row, form, found=self._look(form, days))
            if row is None:
                made = services.policy_make(principal=who, values=form.values(), **form.owner())
            else:
                made = services.policy_change(principal=who, policy=row, values=form.values())
        except BerthError as error:
            return self._page(row, form, refuse(request, form, error))
        name = words.scope_words(made)
        messages.success(request, _t("The policy of “%(name)s” is saved.") % {"name": name})
        return HttpResponseRedirect(reverse("parking:policies"))

    def _look(self, form: PolicyForm, days: str) -> dry_run.Found:
        asked = int(days) if days.isascii() and days.isdecimal() else 0
        if asked not in dry_run.DAYS:
            raise Invalid(_t("2, 7 or 30 days, please."))
        draft = IdlePolicy(**form.values())
        if form.instance.pk:
            draft.project, draft.organisation = form.instance.project, form.instance.organisation
        for name, owner in form.owner().items():
            setattr(draft, name, owner)
        return dry_run.look_back(services.policies.checked(draft), days=asked)

    def _page(
        self,
        row: IdlePolicy | None,
        form: PolicyForm,
        status: int = 200,
        found: dry_run.Found | None = None,
    ) -> HttpResponse:
        return self.render(
            {
                "policy": row,
                "scope": words.scope_words(row) if row else "",
                "form": form,
                "found": found,
                "days": dry_run.DAYS,
                "may_change": self.principal.is_operator,
            },
            status=status,
        )


class PolicyDelete(PlatformView):
    """A policy goes behind the typed name of what it is for."""

    required_platform: ClassVar[Any] = {"POST": "operator"}
    stands_on = PolicyEdit

    def post(self, request: HttpRequest, policy: Any) -> HttpResponse:
        row = selectors.policy_get(policy)
        name = words.scope_words(row)
        if request.POST.get("confirm", "").strip() != name:
            raise Invalid(_t("The typed name is not right. Nothing was changed."))
        services.policy_delete(principal=self.principal, policy=row)
        messages.success(request, _t("The policy of “%(name)s” is deleted.") % {"name": name})
        return HttpResponseRedirect(reverse("parking:policies"))
