from django.db import models
from django.utils.translation import gettext_lazy as _


class PlatformRole(models.TextChoices):
    NONE = "", _("User")
    OPERATOR = "operator", _("Operator")
    AUDITOR = "auditor", _("Auditor")


class Theme(models.TextChoices):
    AUTO = "auto", _("Like the system")
    LIGHT = "light", _("Light")
    DARK = "dark", _("Dark")
