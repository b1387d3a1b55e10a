"""``{% load events %}{{ event.verb|verb_words }}``."""

from django import template

from events.verbs import outcome_words, words_of

register = template.Library()
register.filter("verb_words", words_of)
register.filter("outcome_words", outcome_words)
