"""Tabs of a workspace's page that other apps bring; their arguments are project and workspace."""

from accounts.principal import Principal
from common.ui.components import Tab, Tabs
from notebooks.models import Workspace

__all__ = ["Tab", "more_of", "register"]

_tabs: Tabs[Principal, Workspace] = Tabs()
register, more_of = _tabs.register, _tabs.of
