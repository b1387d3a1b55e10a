"""The operators' pages of the tree: what each part has, and what would follow from a change."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common.errors import BerthError, Conflict, Invalid
from common.paging import paginate
from common.templatetags.berth import duration
from common.ui.responses import refuse, status_of
from projects.ui.base import PlatformView
from queues import selectors, services
from queues.choices import Purpose
from queues.planning import Change, Plan, plan
from queues.tree import Entry
from queues.ui import bars
from queues.ui.forms import Cells, PartForm, PriorityForm, TwoGroupsForm

PER_PAGE = 100


class QueuesView(PlatformView):
    """Auditors read; only operators change."""

    required_platform: ClassVar[Any] = {"GET": "auditor", "POST": "operator"}
    tab = "tree"

    def context(self) -> dict[str, Any]:
        tabs = [
            {"label": label, "url": reverse(f"queues:{name}"), "current": name == self.tab}
            for name, label in (
                ("tree", _("Tree")),
                ("priorities", _("Priorities")),
                ("history", _("Changes")),
            )
        ]
        return {**super().context(), "may_change": self.principal.is_operator, "tabs": tabs}

    def saved(self, made: Plan) -> None:
        """Say that it is saved, and what is promised beyond what there is."""
        messages.success(self.request, _("Saved. What follows has begun."))
        for effect in made.effects:
            for promise in effect.promised:
                if promise.is_over:
                    said = _("%(kind)s on %(cluster)s: %(n)d are promised, %(all)d exist.") % {
                        "kind": effect.labels[promise.kind],
                        "cluster": effect.cluster.label,
                        "n": promise.promised,
                        "all": promise.exists,
                    }
                    messages.warning(self.request, said)


class Tree(QueuesView):
    """The tree with the numbers of one kind of GPU on one cluster in cells that can be changed.

    ``preview``: nothing is changed; answered is what would follow.
    """

    template_name = "queues/tree.html"
    partial_name = "queues/_now.html"

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        return self._page(selectors.look())

    def post(self, request: HttpRequest) -> HttpResponse:
        look = selectors.look()
        column = look.column(self._where())
        if column is None:
            raise Invalid(_("There are no GPUs to share."))
        cells = Cells().read(request.POST, look.tree, column.where)
        error: BerthError | None = None
        made: Plan | None = None
        if cells.wrong:
            error = Invalid(_("Some numbers are not right."))
        else:
            try:
                if "preview" in request.POST:
                    made = plan(cells.changes)
                else:
                    revision = request.POST.get("revision", "")
                    made = services.queues_change(
                        principal=self.principal, changes=cells.changes, revision=revision
                    )
                    self.saved(made)
                    return HttpResponseRedirect(request.get_full_path())
            except BerthError as refused:
                error = refused
        if getattr(request, "htmx", False):
            context = {"plan": made, "error": error, "wrong": self._named(cells, look)}
            status = 422 if error else 200
            return self.render(context, template="queues/_effect.html", status=status)
        status = status_of(error) if error else 200
        if error is not None:
            request.berth_error = error  # type: ignore[attr-defined]  # projects.middleware
        if isinstance(error, Conflict):
            cells = Cells()  # the whole page is old: what was not touched would be put back too
        return self._page(look, cells=cells, plan=made, error=error, status=status)

    def _where(self) -> tuple[str, str]:
        cluster, _slash, kind = self.request.GET.get("on", "").partition("/")
        return cluster, kind

    @staticmethod
    def _named(cells: Cells, look: selectors.Look) -> list[tuple[str, str]]:
        return [(look.tree[key].name, said) for key, said in cells.wrong.items()]

    def _page(
        self,
        look: selectors.Look,
        *,
        cells: Cells | None = None,
        plan: Plan | None = None,
        error: BerthError | None = None,
        status: int = 200,
    ) -> HttpResponse:
        column = look.column(self._where())
        cells = cells or Cells()
        search = self.request.GET.get("q", "")[:120].strip()
        rows = look.rows(column)
        if search:
            rows = [one for one in rows if search.casefold() in one.entry.name.casefold()]
        page = Paginator(rows, PER_PAGE).get_page(self.request.GET.get("page"))
        exists = column.exists if column else 0
        context = {
            "column": column,
            "columns": [
                {
                    "column": one,
                    "bar": bars.of_column(one),
                    "url": "?" + urlencode({"on": "/".join(one.where)}),
                    "current": one is column,
                }
                for one in look.columns
            ],
            "rows": [self._row(one, cells, exists) for one in page],
            "page": page,
            "search": search,
            "pools": selectors.pools_on(column.cluster, look.tree) if column else [],
            "revision": look.revision,
            "plan": plan,
            "error": error,
            "wrong": self._named(cells, look),
            "here": self.request.get_full_path(),
        }
        return self.render(context, status=status)

    @staticmethod
    def _row(row: selectors.Row, cells: Cells, exists: int) -> dict[str, Any]:
        entry, share = row.entry, row.use.share
        values = {
            "guaranteed": share.guaranteed or "",
            "most": "" if share.most is None else share.most,
            "lends": "" if share.lends is None else share.lends,
            "weight": f"{entry.weight.normalize():f}",
        }
        labels = {
            "guaranteed": (_("Guaranteed"), _("Guaranteed to %(name)s"), "0"),
            "most": (_("Most"), _("Most that %(name)s may hold"), _("no limit")),
            "lends": (_("Lends"), _("How many %(name)s lends"), _("all")),
            "weight": (_("Weight"), _("Weight of %(name)s"), "1"),
        }
        longest = entry.longest.items()
        rules = [
            _("%(purpose)s: %(time)s at most")
            % {"purpose": Purpose(purpose).label, "time": duration(timedelta(minutes=n))}
            for purpose, n in longest
            if purpose in Purpose.values
        ]
        if entry.each_gpus is not None:
            text = ngettext("%(n)d GPU each", "%(n)d GPUs each", entry.each_gpus)
            rules.insert(0, text % {"n": entry.each_gpus})
        return {
            "entry": entry,
            "rules": " · ".join(rules),
            "depth": min(row.depth, 6),
            "use": row.use,
            "bar": bars.of_part(row.use, exists),
            "wrong": cells.wrong.get(entry.key, ""),
            "cells": [
                {
                    "name": f"{name}:{entry.key}",
                    "value": cells.typed.get(f"{name}:{entry.key}", value),
                    "head": labels[name][0],
                    "label": labels[name][1] % {"name": entry.name},
                    "placeholder": labels[name][2],
                    "step": "any" if name == "weight" else "1",
                }
                for name, value in values.items()
            ],
        }


class Part(QueuesView):
    """One part of the tree: its name, its place, its weight. ``preview`` changes nothing."""

    template_name = "queues/part.html"

    def get(self, request: HttpRequest, part: Any) -> HttpResponse:  # noqa: ARG002
        entry, tree = selectors.entry_get(str(part))
        return self._page(entry, tree, PartForm(tree=tree, entry=entry))

    def post(self, request: HttpRequest, part: Any) -> HttpResponse:
        entry, tree = selectors.entry_get(str(part))
        form = PartForm(request.POST, tree=tree, entry=entry)
        if not form.is_valid():
            return self._page(entry, tree, form, status=422)
        changes: dict[str, Change] = {entry.key: form.change()}
        try:
            if "preview" in request.POST:
                return self._page(entry, tree, form, plan=plan(changes))
            self.saved(services.queues_change(principal=self.principal, changes=changes))
        except BerthError as error:
            return self._page(entry, tree, form, status=refuse(request, form, error))
        return HttpResponseRedirect(reverse("queues:tree"))

    def _page(
        self,
        entry: Entry,
        tree: Any,
        form: PartForm,
        *,
        plan: Plan | None = None,
        status: int = 200,
    ) -> HttpResponse:
        below = [one.name for one in tree.values() if one.parent == entry.key]
        lost = [
            _("%(n)d × %(kind)s guaranteed on %(cluster)s")  # noqa: RUF001 - the sign
            % {"n": share.guaranteed, "kind": kind, "cluster": cluster}
            for (cluster, kind), share in entry.shares.items()
            if share.guaranteed
        ]
        context = {
            "entry": entry,
            "form": form,
            "plan": plan,
            "below": below,
            "lost": lost,
            "heading": entry.name,
            "events": list(selectors.history().filter(data__part=entry.key)[:10]),
        }
        return self.render(context, status=status)


class Organisation(QueuesView):
    """A new organisation."""

    required_platform: ClassVar[Any] = "operator"
    template_name = "queues/part.html"

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        return self._page(PartForm(tree=selectors.entries(), entry=None))

    def post(self, request: HttpRequest) -> HttpResponse:
        form = PartForm(request.POST, tree=selectors.entries(), entry=None)
        if not form.is_valid():
            return self._page(form, 422)
        said = form.cleaned_data
        try:
            made = services.queue_create(
                principal=self.principal,
                name=said["name"],
                parent=said["parent"],
                weight=said["weight"],
            )
        except BerthError as error:
            return self._page(form, refuse(request, form, error))
        messages.success(request, _("“%(name)s” is made.") % {"name": made.name})
        return HttpResponseRedirect(reverse("queues:tree"))

    def _page(self, form: PartForm, status: int = 200) -> HttpResponse:
        return self.render({"form": form, "heading": _("New organisation")}, status=status)


class PartDelete(QueuesView):
    """An organisation goes behind its typed name."""

    required_platform: ClassVar[Any] = {"POST": "operator"}
    stands_on = Part

    def post(self, request: HttpRequest, part: Any) -> HttpResponse:
        entry, _tree = selectors.entry_get(str(part))
        if request.POST.get("confirm", "").strip() != entry.name:
            raise Invalid(_("The typed name is not the organisation's. Nothing was changed."))
        services.queue_delete(principal=self.principal, key=entry.key)
        messages.success(request, _("“%(name)s” is deleted.") % {"name": entry.name})
        return HttpResponseRedirect(reverse("queues:tree"))


class TwoGroups(QueuesView):
    """Fixed GPUs for building and a shared pool for training, in one step (A16)."""

    required_platform: ClassVar[Any] = "operator"
    template_name = "queues/two_groups.html"

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        return self._page(TwoGroupsForm(look=selectors.look()))

    def post(self, request: HttpRequest) -> HttpResponse:
        form = TwoGroupsForm(request.POST, look=selectors.look())
        if not form.is_valid():
            return self._page(form, status=422)
        try:
            if "preview" in request.POST:
                return self._page(form, plan=services.two_groups_plan(**form.said()))
            made = services.two_groups_make(principal=self.principal, **form.said())
        except BerthError as error:
            return self._page(form, status=refuse(request, form, error))
        self.saved(made)
        return HttpResponseRedirect(
            reverse("queues:tree", query={"on": "/".join(form.said()["where"])})
        )

    def _page(
        self, form: TwoGroupsForm, *, plan: Plan | None = None, status: int = 200
    ) -> HttpResponse:
        return self.render({"form": form, "plan": plan}, status=status)


class PriorityList(QueuesView):
    """The classes of priority."""

    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "queues/priorities.html"
    tab = "priorities"

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        return self.render({"priorities": selectors.priorities()})


class PriorityEdit(QueuesView):
    """One class of priority, or a new one."""

    template_name = "queues/priority.html"
    tab = "priorities"

    def get(self, request: HttpRequest, priority: str = "") -> HttpResponse:  # noqa: ARG002
        row = selectors.priority_get(priority) if priority else None
        return self._page(row, self._form(row))

    def post(self, request: HttpRequest, priority: str = "") -> HttpResponse:
        row = selectors.priority_get(priority) if priority else None
        form = self._form(row, request.POST)
        if not form.is_valid():
            return self._page(row, form, 422)
        try:
            made = services.priority_save(
                principal=self.principal, values=form.cleaned_data, priority=row
            )
        except BerthError as error:
            return self._page(row, form, refuse(request, form, error))
        messages.success(request, _("“%(name)s” is saved.") % {"name": made.label})
        return HttpResponseRedirect(reverse("queues:priorities"))

    @staticmethod
    def _form(row: Any, data: Any = None) -> PriorityForm:
        names = ("name", "label", "value", "who", "purpose")
        initial = {name: getattr(row, name) for name in names} if row else None
        form = PriorityForm(data, initial=initial)
        if row is not None:  # work names it
            form.fields["name"].disabled = True
        return form

    def _page(self, row: Any, form: PriorityForm, status: int = 200) -> HttpResponse:
        return self.render({"priority": row, "form": form}, status=status)


class PriorityDelete(QueuesView):
    """A class of priority goes behind its typed name."""

    required_platform: ClassVar[Any] = {"POST": "operator"}
    stands_on = PriorityEdit

    def post(self, request: HttpRequest, priority: str) -> HttpResponse:
        row = selectors.priority_get(priority)
        if request.POST.get("confirm", "").strip() != row.name:
            raise Invalid(_("The typed name is not the class's. Nothing was changed."))
        services.priority_delete(principal=self.principal, priority=row)
        messages.success(request, _("“%(name)s” is deleted.") % {"name": row.label})
        return HttpResponseRedirect(reverse("queues:priorities"))


class History(QueuesView):
    """Every change of the tree and of priorities, with before, after and the effect."""

    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "queues/history.html"
    tab = "history"

    def get(self, request: HttpRequest) -> HttpResponse:
        return self.render({"page": paginate(request, selectors.history())})
