"""``{% load console_words %}{{ cluster.driver|driver_words }}``."""

from django import template

from clusters.wording import work_words
from console import words

register = template.Library()
register.filter("driver_words", words.driver_words)
register.filter("duty_words", words.duty_words)
register.filter("work_words", work_words)
register.filter("answer_words", words.answer_words)
