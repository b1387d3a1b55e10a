# ruff: noqa: E402 - settings first, then Django
"""The one person, project and preset of the programs that race; importing it sets Django up."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.test")

import django

django.setup()

from accounts.models import User
from accounts.principal import Principal
from notebooks.models import Preset
from notebooks.services import ensure_default_presets
from projects.models import Membership, Project


def begin() -> tuple[Principal, Project, Preset]:
    """Make them in the database of the settings, which is migrated."""
    person = User.objects.create(username="ann", password="!")
    project = Project.objects.create(slug="race", name="Race")
    Membership.objects.create(project=project, user=person, role="member")
    ensure_default_presets()
    return Principal(user=person), project, Preset.objects.get(slug="jupyterlab")
