"""Everything that changes a project, its members and its invitations."""

from projects.services.invitations import (
    invitation_accept,
    invitation_create,
    invitation_find,
    invitation_link,
    invitation_revoke,
)
from projects.services.kube import (
    file_of,
    grant_create,
    grant_revoke,
    grants_revoke_for,
    no_address,
    outlives,
    token_issue,
)
from projects.services.life import (
    project_archive,
    project_create,
    project_request_delete,
    project_set_clusters,
    project_unarchive,
    project_update,
    require_active,
)
from projects.services.members import (
    group_role_remove,
    group_role_set,
    groups_sync,
    member_add,
    member_leave,
    member_remove,
    member_set_role,
    roles_grantable,
)

__all__ = [
    "file_of",
    "grant_create",
    "grant_revoke",
    "grants_revoke_for",
    "group_role_remove",
    "group_role_set",
    "groups_sync",
    "invitation_accept",
    "invitation_create",
    "invitation_find",
    "invitation_link",
    "invitation_revoke",
    "member_add",
    "member_leave",
    "member_remove",
    "member_set_role",
    "no_address",
    "outlives",
    "project_archive",
    "project_create",
    "project_request_delete",
    "project_set_clusters",
    "project_unarchive",
    "project_update",
    "require_active",
    "roles_grantable",
    "token_issue",
]
