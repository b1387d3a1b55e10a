"""Classes of storage: what volumes lie on, cost and are offered as."""

from typing import Any, ClassVar

from django.contrib import messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from common.errors import BerthError, Invalid
from common.ui.responses import show_error
from console import storage_forms as forms
from console.views.base import ConsoleView, ListView
from volumes import selectors
from volumes.models import VolumeClass
from volumes.services import classes


class VolumeClassList(ListView):
    table_class = forms.VolumeClassTable
    filter_class = forms.VolumeClassFilter

    def rows(self, chosen: dict[str, Any]) -> QuerySet[VolumeClass]:
        live = Count("volumes", filter=Q(volumes__deleted_at__isnull=True))
        rows = selectors.classes().annotate(volumes_held=live)
        if word := chosen.get("q"):
            rows = rows.filter(Q(name__icontains=word) | Q(key__icontains=word))
        return rows

    def extra(self) -> dict[str, Any]:
        return {
            "heading": _("Storage"),
            "action_url": reverse("console:volume-class-create"),
            "action_label": _("New class"),
            "empty_icon": "database-cog",
            "empty_title": _("No class of storage yet"),
            "empty_text": _("Each cluster makes its own with the first volume there."),
        }


class VolumeClassEdit(ConsoleView):
    """One form for a new or a known class."""

    template_name = "console/part.html"

    def get(self, request: HttpRequest, volume_class: str = "") -> HttpResponse:  # noqa: ARG002
        known = selectors.class_get(volume_class) if volume_class else None
        return self._page(known, forms.VolumeClassForm(row=known))

    def post(self, request: HttpRequest, volume_class: str = "") -> HttpResponse:
        known = selectors.class_get(volume_class) if volume_class else None
        form = forms.VolumeClassForm(request.POST, row=known)
        if not form.is_valid():
            return self._page(known, form, 400)
        try:
            saved = classes.class_save(
                principal=self.principal, values=form.values(), volume_class=known
            )
        except BerthError as error:
            show_error(form, error, forms.NAMES)
            return self._page(known, form, error.status)
        messages.success(
            request, _("“%(name)s” is saved. Volumes stay where they are.") % {"name": saved.name}
        )
        return HttpResponseRedirect(reverse("console:volume-classes"))

    def _page(
        self, known: VolumeClass | None, form: forms.VolumeClassForm, status: int = 200
    ) -> HttpResponse:
        for name, field in form.fields.items():
            field.disabled = not self.principal.is_operator
            if known is not None and name == "key":
                field.widget.attrs["readonly"] = True
        context = {
            "form": form,
            "part": known,
            "heading": known.name if known else _("New class of storage"),
            "back_url": reverse("console:volume-classes"),
            "back_label": _("Storage"),
        }
        if known:
            address = "console:volume-class-delete"
            context |= {
                "delete_url": reverse(address, kwargs={"volume_class": known.key}),
                "delete_title": _("Delete the class “%(name)s”?") % {"name": known.name},
                "delete_text": _(
                    "Its price and options are forgotten. Refused while a volume is of this class"
                    " or a cluster takes it unasked."
                ),
            }
        return self.render(context, status=status)


class VolumeClassDelete(ConsoleView):
    """Behind the typed name."""

    stands_on = VolumeClassEdit
    required_platform: ClassVar[Any] = {"POST": "operator"}

    def post(self, request: HttpRequest, volume_class: str) -> HttpResponse:
        row = selectors.class_get(volume_class)
        if request.POST.get("confirm", "").strip() != row.name:
            raise Invalid(_("The typed name is not this one's. Nothing was changed."))
        classes.class_delete(principal=self.principal, volume_class=row)
        messages.success(request, _("“%(name)s” is deleted.") % {"name": row.name})
        return HttpResponseRedirect(reverse("console:volume-classes"))
