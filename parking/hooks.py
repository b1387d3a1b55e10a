"""What other apps add to the judgement of idle work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from common.hooks import Hook

if TYPE_CHECKING:
    from parking.judgement import Rule

# The rules that work brings itself, by the primary key of its row, of what runs now. They hold
# beside a policy: the sooner one acts.
own_rules: Hook[[], Mapping[int, Rule]] = Hook()
