"""What other apps add to the judgement of idle work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from common.hooks import Hook

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime
    from uuid import UUID

    from parking.judgement import Rule

# The rules that work brings itself, by the primary key of its row, of what runs now. They hold
# beside a policy: the sooner one acts.
own_rules: Hook[[], Mapping[int, Rule]] = Hook()
# When work was last used in a way of its kind, such as a request that it answered; by its uid.
used_at: Hook[[Collection[UUID]], Mapping[UUID, datetime]] = Hook()
