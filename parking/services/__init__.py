"""Every write about idle work: looking, telling, putting off, parking, and the policies."""

from parking.services.acts import idle_extend, owner_message, work_park
from parking.services.hints import hints_tell
from parking.services.policies import policy_change, policy_delete, policy_make
from parking.services.watch import enforce

__all__ = [
    "enforce",
    "hints_tell",
    "idle_extend",
    "owner_message",
    "policy_change",
    "policy_delete",
    "policy_make",
    "work_park",
]
