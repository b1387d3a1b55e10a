"""What can be done to a row of a list: a menu on it, and a mark for what is done to several.

The marks belong to the form of ``components/bulk.html``, which stands outside the part of the page
that refreshes itself, and the menus' buttons to another there: a form can't be inside one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.utils.functional import Promise
    from django.utils.safestring import SafeString


@dataclass(frozen=True)
class Act:
    """A line of a row's menu: a page to go to, or (``posts``) something that is done at once."""

    label: str | Promise
    icon: str
    url: str
    posts: bool = False
    destroys: bool = False


def mark(value: object, name: str) -> SafeString:
    """A checkbox that chooses a row."""
    return format_html(
        '<input type="checkbox" class="form-check-input row-mark" form="bulk" name="id"'
        ' value="{}" aria-label="{}">',
        value,
        _("Choose %(name)s") % {"name": name},
    )


def menu(name: str, acts: Sequence[Act]) -> SafeString | str:
    """The menu of a row; nothing where nothing can be done."""
    if not acts:
        return ""
    context: dict[str, Any] = {"name": name, "acts": acts}
    return render_to_string("components/row_menu.html", context)
