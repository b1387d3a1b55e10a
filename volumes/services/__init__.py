"""Writing intent of volumes. The reconciler carries it out; nothing here touches a disk."""

from volumes.services.catalogue import class_delete, class_save
from volumes.services.create import NewVolume, volume_create
from volumes.services.edit import Changes, volume_edit
from volumes.services.homes import (
    home_ensure,
    home_find,
    project_volume_ensure,
    project_volumes_ensure,
    shared_volumes_repair,
)
from volumes.services.manifest import (
    Plan,
    manifest_of,
    manifest_plan,
    volume_apply,
    volume_plan,
)
from volumes.services.removal import (
    volume_bring_back,
    volume_delete,
    volume_purge,
    volumes_request_delete,
)
from volumes.services.snapshots import snapshot_create, snapshot_delete, snapshot_restore
from volumes.services.transfers import (
    transfer_accept,
    transfer_ask,
    transfer_decline,
    transfer_withdraw,
)
from volumes.services.unfulfilled_expansion import growth_refused
from volumes.services.use import (
    volume_measure_soon,
    volume_note_use,
    volume_note_written,
    volume_take_turn,
    volumes_hold,
)

__all__ = [
    "Changes",
    "NewVolume",
    "Plan",
    "class_delete",
    "class_save",
    "growth_refused",
    "home_ensure",
    "home_find",
    "manifest_of",
    "manifest_plan",
    "project_volume_ensure",
    "project_volumes_ensure",
    "shared_volumes_repair",
    "snapshot_create",
    "snapshot_delete",
    "snapshot_restore",
    "transfer_accept",
    "transfer_ask",
    "transfer_decline",
    "transfer_withdraw",
    "volume_apply",
    "volume_bring_back",
    "volume_create",
    "volume_delete",
    "volume_edit",
    "volume_measure_soon",
    "volume_note_use",
    "volume_note_written",
    "volume_plan",
    "volume_purge",
    "volume_take_turn",
    "volumes_hold",
    "volumes_request_delete",
]
