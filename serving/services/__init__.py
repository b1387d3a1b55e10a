"""Every write to endpoints that is not one to any work. Split by subject; this is the door."""

from serving.services.base import GATEWAYS
from serving.services.canary import (
    canaries_step,
    canary_end,
    canary_make,
    canary_promote,
    canary_split,
    endpoint_roll_back,
    takes_back,
)
from serving.services.history import served_before, served_by
from serving.services.keys import key_make, key_revoke, keys_of
from serving.services.scale import Scaler, replicas_set
from serving.services.sleep import endpoint_sleep, endpoint_wake, endpoints_sleep
from serving.services.takeover import endpoint_takeover, may_take_over
from serving.services.trying import endpoint_try

__all__ = [
    "GATEWAYS",
    "Scaler",
    "canaries_step",
    "canary_end",
    "canary_make",
    "canary_promote",
    "canary_split",
    "endpoint_roll_back",
    "endpoint_sleep",
    "endpoint_takeover",
    "endpoint_try",
    "endpoint_wake",
    "endpoints_sleep",
    "key_make",
    "key_revoke",
    "keys_of",
    "may_take_over",
    "replicas_set",
    "served_before",
    "served_by",
    "takes_back",
]
