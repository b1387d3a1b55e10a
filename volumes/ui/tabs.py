"""Tabs of a volume's page that other apps bring; their arguments are project and volume."""

from accounts.principal import Principal
from common.ui.tabs import Tab, Tabs
from volumes.models import Volume

__all__ = ["Tab", "more_of", "register"]

_tabs: Tabs[Principal, Volume] = Tabs()
register, more_of = _tabs.register, _tabs.of
