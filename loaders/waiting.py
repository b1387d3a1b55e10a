"""Who waits for loads: called with the uids of loads that ended, began or went.

Called inside the transaction of the change: a callback marks rows due and nothing else.
"""

from collections.abc import Collection
from uuid import UUID

from common.hooks import Hook

loads_changed: Hook[[Collection[UUID]], None] = Hook()
