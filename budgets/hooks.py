"""What other apps add to budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.hooks import Hook

if TYPE_CHECKING:
    from budgets.selectors import Books

# All budgets were looked at: what is beyond one is to go as the budget says. In no transaction.
looked: Hook[[Books], None] = Hook()
