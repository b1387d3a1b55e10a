"""Words about a piece of work of any kind that several pages share."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.safestring import SafeString

from common.templatetags.berth import badge
from work.ui.pages import pages_of
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
    return badge(pages.badge_word(row) if pages.badge_word else state.label, tone, shape)


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
