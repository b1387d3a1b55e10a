"""Forms look the same everywhere: Django's own renderer, one field template."""

from django.forms.renderers import DjangoTemplates


class BerthFormRenderer(DjangoTemplates):
    """Field template: templates/components/field.html (found through APP_DIRS of common)."""

    field_template_name = "django/forms/field.html"
