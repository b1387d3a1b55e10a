"""What other apps add to the life of an account, without accounts importing them.

Each list is filled in an ``AppConfig.ready`` and called inside the transaction of the act.
A callback writes rows only (intent); the world follows by the engine.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accounts.models import ApiToken, User
    from accounts.principal import Principal

UserDisabled = Callable[["User", "Principal | None"], None]
SessionsEnded = Callable[["User", Sequence[str]], None]
TokenRevoked = Callable[["ApiToken", "Principal"], None]
ProjectChoices = Callable[["User"], Sequence[tuple[str, str]]]
SshServer = Callable[[], Mapping[str, str] | None]

_user_disabled: list[UserDisabled] = []
_sessions_ended: list[SessionsEnded] = []
_token_revoked: list[TokenRevoked] = []
_project_choices: list[ProjectChoices] = []
_ssh_servers: list[SshServer] = []


def on_user_disabled(callback: UserDisabled) -> UserDisabled:
    """Register what is cut when a person is disabled (tokens of notebooks, sockets …)."""
    if callback not in _user_disabled:
        _user_disabled.append(callback)
    return callback


def on_sessions_ended(callback: SessionsEnded) -> SessionsEnded:
    """Register what ends with portal sessions; it gets the person and the session keys."""
    if callback not in _sessions_ended:
        _sessions_ended.append(callback)
    return callback


def on_token_revoked(callback: TokenRevoked) -> TokenRevoked:
    """Register what ends with an API token: whatever was made with it."""
    if callback not in _token_revoked:
        _token_revoked.append(callback)
    return callback


def offer_projects(callback: ProjectChoices) -> ProjectChoices:
    """Register the source of (uid, name) of projects that a token may be limited to."""
    if callback not in _project_choices:
        _project_choices.append(callback)
    return callback


def offer_ssh_server(callback: SshServer) -> SshServer:
    """Register who says host, port and fingerprint of the server that SSH keys open."""
    if callback not in _ssh_servers:
        _ssh_servers.append(callback)
    return callback


def user_disabled(user: "User", who: "Principal | None") -> None:
    for callback in _user_disabled:
        callback(user, who)


def sessions_ended(user: "User", session_keys: Sequence[str]) -> None:
    if session_keys:
        for callback in _sessions_ended:
            callback(user, session_keys)


def token_revoked(token: "ApiToken", who: "Principal") -> None:
    for callback in _token_revoked:
        callback(token, who)


def project_choices(user: "User") -> list[tuple[str, str]]:
    return [choice for source in _project_choices for choice in source(user)]


def ssh_servers() -> list[Mapping[str, str]]:
    return [found for source in _ssh_servers if (found := source()) is not None]
