"""Everything that changes an account. Views, API and commands only translate to these."""

from accounts.services.denials import record_denied
from accounts.services.device import (
    AuthorizationPending,
    DeviceStart,
    Expired,
    SlowDown,
    device_approve,
    device_deny,
    device_exchange,
    device_start,
)
from accounts.services.people import (
    invited_user_accept,
    password_reset_by_operator,
    profile_update,
    set_platform_role,
    user_create,
    user_disable,
    user_enable,
    user_rename,
)
from accounts.services.sessions import session_revoke, sessions_end_all, sessions_end_others
from accounts.services.ssh_keys import ssh_key_add, ssh_key_remove
from accounts.services.tokens import token_authenticate, token_create, token_revoke

__all__ = [
    "AuthorizationPending",
    "DeviceStart",
    "Expired",
    "SlowDown",
    "device_approve",
    "device_deny",
    "device_exchange",
    "device_start",
    "invited_user_accept",
    "password_reset_by_operator",
    "profile_update",
    "record_denied",
    "session_revoke",
    "sessions_end_all",
    "sessions_end_others",
    "set_platform_role",
    "ssh_key_add",
    "ssh_key_remove",
    "token_authenticate",
    "token_create",
    "token_revoke",
    "user_create",
    "user_disable",
    "user_enable",
    "user_rename",
]
