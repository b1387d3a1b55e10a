"""What the pages of workspaces say and show of their own: words, states, tabs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from common.templatetags.berth import PHASES, translated
from common.ui.components import Tab
from notebooks.choices import State
from notebooks.hub import open_url
from notebooks.kind import WORKSPACE
from notebooks.selectors import default_preset, presets_for
from notebooks.states import STATES
from notebooks.ui.present import AHEAD, shown
from notebooks.ui.tabs import more_of
from notebooks.where import cluster_of
from runtime.protocol import Phase
from work.ui.pages import COLUMNS, Pages, Words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accounts.principal import Principal
    from notebooks.models import Workspace


def _log_stream(row: Workspace) -> str:
    """A pod's log is followed at its source: a ticket leads to the gate, at each connection.
    Other logs are asked for.
    """
    alive = row.shown_phase in {Phase.STARTING, Phase.RUNNING}
    if not alive or cluster_of(row) is None:
        return ""
    return f"/tickets/logs/{row.short_id}"


def _new_part(row: Workspace) -> dict[str, Any]:
    """Return the presets to begin with; ``row`` is of one of them."""
    preset = row.preset or default_preset(row.project)
    title = _t("%(name)s with options") % {"name": translated(preset.name)}
    return {"preset": preset, "presets": presets_for(row.project), "new_title": title}


def _tabs(who: Principal, row: Workspace) -> Sequence[Tab]:
    return [*more_of(who, row), Tab("usage", "usage", _t("Usage"))]


PAGES = Pages(
    kind=WORKSPACE,
    routes="notebooks",
    path="workspaces",
    new_path="launch",
    verb="launch",
    new_part="notebooks/_presets.html",
    new_part_of=_new_part,
    image_check="images:check",
    listed=False,
    words=Words(
        mine=_("My workspaces"),
        new=_("Start a workspace"),
        none=_("No workspace yet"),
        about=_(
            "A workspace is JupyterLab on the size you choose. Files and address stay when it "
            "stops."
        ),
        again=_("Resume"),
        retry=_("Retry"),
        stop=_("Stop"),
        stop_chosen=_("Stop the chosen"),
        stopped=_("“%(name)s” is stopping. Its files are kept."),
        stop_lost=_("What runs in them ends. Files, packages and addresses are kept."),
        delete_lost=_(
            "What runs ends at once. Installed packages, logs and addresses are lost."
            " Homes and their files stay."
        ),
        stop_many=lambda n: ngettext("Stop %(n)d workspace", "Stop %(n)d workspaces", n) % {"n": n},
        stopping_many=lambda n: (
            ngettext("%(n)d workspace is stopping.", "%(n)d workspaces are stopping.", n) % {"n": n}
        ),
        delete_many=lambda n: (
            ngettext("Delete %(n)d workspace", "Delete %(n)d workspaces", n) % {"n": n}
        ),
        deleting_many=lambda n: (
            ngettext("%(n)d workspace is being deleted.", "%(n)d workspaces are being deleted.", n)
            % {"n": n}
        ),
        events=_("What happened to all workspaces of the project"),
        document=_("Workspace as YAML"),
    ),
    states=STATES,
    shapes={state: (state.value, PHASES[state.value][0]) for state in State},
    goes_on=("running", "starting", "pending"),
    ahead=AHEAD,
    log_stream=_log_stream,
    shown=shown,
    tabs=_tabs,
    head="notebooks/_head.html",
    private_settings=True,
    open_url=open_url,
    columns=tuple("ends" if name == "took" else name for name in COLUMNS),
)
