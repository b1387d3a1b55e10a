"""Forms of the tree: the cells of the table, a part, the two groups, a class of priority."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from queues import selectors
from queues.choices import Purpose, Who
from queues.models import MAX_DEVICES
from queues.planning import MAX_MINUTES, Change, share_problem
from queues.sharing import ROOT, Share
from queues.tree import in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from django.http import QueryDict

    from queues.selectors import Look
    from queues.tree import Entry, Where

NUMBERS = ("guaranteed", "most", "lends")
CELLS = (*NUMBERS, "weight")


@dataclass
class Cells:
    """What was typed into the table of one kind: changes, or what is wrong in which row."""

    changes: dict[str, Change] = field(default_factory=dict)
    typed: dict[str, str] = field(default_factory=dict)  # by "guaranteed:<key of the part>"
    wrong: dict[str, str] = field(default_factory=dict)  # by the key of the part

    def read(self, data: QueryDict, tree: Mapping[str, Entry], where: Where) -> Cells:
        """Take what differs from the tree; an empty cell is nothing guaranteed, and no limit."""
        for key, entry in tree.items():
            names = {name: f"{name}:{key}" for name in CELLS}
            if names["guaranteed"] not in data:
                continue
            said = {name: data.get(spelled, "").strip() for name, spelled in names.items()}
            self.typed |= {names[name]: text for name, text in said.items()}
            try:
                numbers = [_whole(said[name]) for name in NUMBERS]
                weight = Decimal(said["weight"] or "1")
            except (ValueError, InvalidOperation):
                self.wrong[key] = _t("Whole numbers from 0; a weight may have decimals.")
                continue
            share = Share(numbers[0] or 0, numbers[1], numbers[2])
            if problem := share_problem(share):
                self.wrong[key] = problem
            elif share != entry.share(where) or weight != entry.weight:
                self.changes[key] = Change(weight=weight, shares={where: share})
        return self


def _whole(text: str) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or int(text) > MAX_DEVICES:
        raise ValueError(text)
    return int(text)


def organisations(tree: Mapping[str, Entry], *, but: str = "") -> list[tuple[str, str]]:
    """Return what a part may stand below: not itself, and nothing below it."""
    found = [(ROOT, _t("Nothing: at the top"))]
    closed = {but}
    for entry, depth in in_order(tree):
        if entry.parent in closed and entry.parent:
            closed.add(entry.key)
        if not entry.is_project and entry.key not in closed:
            found.append((entry.key, "\N{EM SPACE}" * depth + entry.name))
    return found


class PartForm(forms.Form):
    """One part of the tree, beside its numbers; a project has no name here."""

    name = forms.CharField(label=_("Name"), max_length=63)
    parent = forms.ChoiceField(label=_("Stands below"), required=False)
    weight = forms.DecimalField(
        label=_("Weight"),
        min_value=0,
        max_value=1000,
        max_digits=6,
        decimal_places=2,
        initial=1,
        help_text=_("Its part of what is borrowed, beside others. 0: after everybody else."),
    )
    build_exceeds = forms.BooleanField(
        label=_("Building may exceed the guarantee"),
        required=False,
        help_text=_("Workspaces then borrow too, and may be told to give back what they borrow."),
    )
    each_gpus = forms.IntegerField(
        label=_("GPUs of each person at most"),
        required=False,
        min_value=0,
        max_value=MAX_DEVICES,
        help_text=_(
            "What one member may hold here at a time; who has a limit of their own has that one."
        ),
    )

    def __init__(
        self, *args: Any, tree: Mapping[str, Entry], entry: Entry | None, **kwargs: Any
    ) -> None:
        if entry is not None:
            kwargs["initial"] = {
                "name": entry.name,
                "parent": entry.parent,
                "weight": f"{entry.weight.normalize():f}",
                "build_exceeds": entry.build_exceeds,
                "each_gpus": entry.each_gpus,
                **{f"longest:{purpose}": n for purpose, n in entry.longest.items()},
            }
        super().__init__(*args, **kwargs)
        for purpose in Purpose if entry else ():
            self.fields[f"longest:{purpose}"] = forms.IntegerField(
                label=_t("%(purpose)s runs at most so many minutes") % {"purpose": purpose.label},
                required=False,
                min_value=0,
                max_value=MAX_MINUTES,
                help_text=_t("Here and below, where that is shorter. Empty: no limit."),
            )
        choices = organisations(tree, but=entry.key if entry else "")
        self.fields["parent"].choices = choices  # type: ignore[attr-defined]
        of_projects = ("build_exceeds", "each_gpus")
        for name in ("name",) if entry and entry.is_project else of_projects:
            del self.fields[name]

    def change(self) -> Change:
        said = self.cleaned_data
        return Change(
            name=said.get("name"),
            parent=said["parent"],
            weight=said["weight"],
            build_exceeds=said.get("build_exceeds"),
            each_gpus=(said["each_gpus"] or 0) if "each_gpus" in said else None,
            longest={p: said.get(f"longest:{p}") or 0 for p in Purpose.values},
        )


class TwoGroupsForm(forms.Form):
    """Fixed GPUs for building, a shared pool for training (A16)."""

    on = forms.ChoiceField(label=_("Kind of GPU"))
    name = forms.CharField(label=_("Name of the pool"), max_length=63)

    def __init__(self, *args: Any, look: Look, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._look = look
        self.fields["name"].initial = _t("Shared pool")
        self.fields["on"].choices = [  # type: ignore[attr-defined]
            ("/".join(c.where), f"{c.flavor.label} · {c.cluster.label} ({c.exists})")
            for c in look.columns
        ]
        self.projects = [entry for entry in look.tree.values() if entry.is_project]
        for entry in self.projects:
            self.fields[f"fixed:{entry.key}"] = forms.IntegerField(
                label=_t("Own GPUs of %(name)s") % {"name": entry.name},
                required=False,
                min_value=0,
                max_value=MAX_DEVICES,
            )
            self.fields[f"pool:{entry.key}"] = forms.BooleanField(
                label=_t("%(name)s is in the pool") % {"name": entry.name}, required=False
            )

    @property
    def kept_apart(self) -> list[str]:
        """What keeps the groups apart, of each cluster that is not one machine."""
        clusters = {column.cluster.pk: column.cluster for column in self._look.columns}
        found = [selectors.kept_apart(one) for one in clusters.values()]
        return [words for words in found if words]

    def rows(self) -> Iterable[tuple[Entry, Any, Any]]:
        return [(e, self[f"fixed:{e.key}"], self[f"pool:{e.key}"]) for e in self.projects]

    def said(self) -> dict[str, Any]:
        """Return it as the service takes it."""
        data = self.cleaned_data
        cluster, _slash, kind = data["on"].partition("/")
        return {
            "where": (cluster, kind),
            "name": data["name"],
            "fixed": {e.key: n for e in self.projects if (n := data[f"fixed:{e.key}"])},
            "pool": [e.key for e in self.projects if data[f"pool:{e.key}"]],
        }


class PriorityForm(forms.Form):
    """A class of priority."""

    name = forms.SlugField(
        label=_("Name"), max_length=40, help_text=_("As documents and commands say it.")
    )
    label = forms.CharField(label=_("Label"), max_length=80)
    value = forms.IntegerField(
        label=_("Value"),
        min_value=-1_000_000,
        max_value=1_000_000,
        help_text=_(
            "Of the same part of the tree, the higher one starts first and gives back last."
        ),
    )
    who = forms.ChoiceField(label=_("Who may ask for it"), choices=Who.choices)
    purpose = forms.ChoiceField(
        label=_("What such work has it by itself"),
        choices=[("", "—"), *Purpose.choices],
        required=False,
    )
