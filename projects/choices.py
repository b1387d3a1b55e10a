from django.db import models
from django.utils.translation import gettext_lazy as _


class Role(models.TextChoices):
    VIEWER = "viewer", _("Viewer")
    MEMBER = "member", _("Member")
    MANAGER = "manager", _("Manager")
    OWNER = "owner", _("Owner")


def roles_in_words(message: str) -> str:
    """“member → owner” with the words that people read for roles."""
    known = {role.value: str(role.label) for role in Role}
    return " → ".join(known.get(word, word) for word in message.split(" → "))


RANK = {Role.VIEWER: 1, Role.MEMBER: 2, Role.MANAGER: 3, Role.OWNER: 4}


class GrantKind(models.TextChoices):
    EXEC = "exec", _("Renewed by itself")
    TOKEN = "token", _("One token in the file")
