from django.db import models
from django.utils.translation import gettext_lazy as _


class WorkspaceKind(models.TextChoices):
    NOTEBOOK = "notebook", _("Notebook")
    CONTAINER = "container", _("Container")
