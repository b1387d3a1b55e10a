"""Words about a piece of work of any kind that several pages share."""

from __future__ import annotations

from typing import Any

from django import template
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from common.templatetags.berth import badge
from work.ui.pages import pages_of
from work.ui.panels import Panel, Slot, panels
from work.ui.present import reason_of, took
from work.ui.sizes import size_words, whole_size_words
from work.ui.timeline import is_far, step_word
from work.ui.verbs import shown_verbs

register = template.Library()

register.simple_tag(size_words, name="size_of")
register.simple_tag(whole_size_words, name="work_size")
register.simple_tag(reason_of, name="work_reason")
register.simple_tag(shown_verbs, name="work_verbs")
register.filter("took", took)


@register.simple_tag
def work_badge(row: Any) -> SafeString:
    """The one badge of its state."""
    pages = pages_of(row)
    state = pages.states.of(row)
    tone, shape = pages.shapes[state]
    word = pages.badge_word(row) if pages.badge_word else row.shown_word or state.label
    return badge(word, tone, shape)


@register.simple_tag(takes_context=True)
def work_panels(context: template.Context, row: Any, slot: str) -> SafeString:
    """Show what other apps have to say of it in that place."""
    who = context["principal"]
    shown = [one for one in panels(who, row, Slot(slot)) if one is not None]
    parts = [
        render_to_string(one.template, _within(context, one), context["request"]) for one in shown
    ]
    return mark_safe("".join(parts))  # noqa: S308 - of templates


def _within(context: template.Context, one: Panel) -> dict[str, Any]:
    page: Any = context.flatten()
    return {**page, **one.context}


@register.simple_tag
def work_url(row: Any, name: str) -> str:
    """Return the address of a page of it."""
    return pages_of(row).address(name, row)


@register.simple_tag
def work_page(row: Any) -> str:
    """Return what Open opens; "" where nothing is."""
    opens = pages_of(row).open_url
    return opens(row) if opens else ""


@register.simple_tag
def work_step(row: Any, word: str) -> str:
    own = pages_of(row).step_words.get(word)
    return str(own) if own else step_word(word, on_cluster=is_far(row))
