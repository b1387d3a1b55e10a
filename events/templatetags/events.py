"""``{% load events %}{{ event.verb|verb_words }}``."""

from django import template

from events.details import details_of
from events.verbs import outcome_words, words_of

register = template.Library()
register.filter("event_details", details_of)
register.filter("verb_words", words_of)
register.filter("outcome_words", outcome_words)
