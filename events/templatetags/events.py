"""``{% load events %}{{ event.verb|verb_words }}``."""

from django import template

from events.verbs import words_of

register = template.Library()
register.filter("verb_words", words_of)
