"""What other apps add to the life of an account; most are called inside its transaction."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from common.hooks import Hook

if TYPE_CHECKING:
    from accounts.models import ApiToken, User
    from accounts.principal import Principal

# What is cut when a person is disabled (tokens of notebooks, sockets …).
user_disabled: Hook[["User", "Principal | None"], None] = Hook()
# What ends with portal sessions; it gets the person and the session keys.
sessions_ended: Hook[["User", Sequence[str]], None] = Hook()
# What ends with an API token: whatever was made with it.
token_revoked: Hook[["ApiToken", "Principal"], None] = Hook()
# (uid, name) of the projects that a token of the person may be limited to.
project_choices: Hook[["User"], Sequence[tuple[str, str]]] = Hook()
# Host, port and fingerprint of the server that SSH keys open, None where there is none.
ssh_servers: Hook[[], Mapping[str, str] | None] = Hook()
