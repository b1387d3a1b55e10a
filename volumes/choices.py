from django.db import models
from django.utils.translation import gettext_lazy as _


class VolumeKind(models.TextChoices):
    HOME = "home", _("Home")
    PROJECT = "project", _("Project")
