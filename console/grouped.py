"""A long form: what is usual stands first, the rest lies in groups that open."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms


class GroupedForm(forms.Form):
    """``HEAD`` is always in sight (a tuple in it is one row); ``GROUPS``: title, sentence, fields.

    A group is open where a field of it was filled in differently from a new form's, or is wrong.
    """

    template_name = "components/grouped.html"

    HEAD: ClassVar[tuple[str | tuple[str, ...], ...]] = ()
    GROUPS: ClassVar[tuple[tuple[Any, Any, tuple[str, ...]], ...]] = ()
    # Fields that say nothing by being set; "*": a form whose every field is set.
    QUIET: ClassVar[tuple[str, ...]] = ()

    def head(self) -> list[list[Any]]:
        rows = [(row,) if isinstance(row, str) else row for row in self.HEAD]
        found = [[self[name] for name in row if name in self.fields] for row in rows]
        return [row for row in found if row]

    def groups(self) -> list[tuple[Any, Any, list[Any], bool]]:
        """Return title, sentence, fields, and whether one of them has to be looked at."""
        found = []
        for title, text, names in self.GROUPS:
            shown = [self[name] for name in names if name in self.fields]
            if shown:
                found.append((title, text, shown, any(self._speaks(field) for field in shown)))
        return found

    def _speaks(self, field: Any) -> bool:
        if field.errors:
            return True
        if "*" in self.QUIET or field.name in self.QUIET:
            return False
        value, initial = field.value(), field.field.initial
        if isinstance(field.field, forms.IntegerField | forms.BooleanField):
            meant = field.field.to_python  # 0.00 is 0, "on" is True
            return meant(value) not in (None, meant(initial))
        return value not in (None, "", []) and str(value) != str(initial)
