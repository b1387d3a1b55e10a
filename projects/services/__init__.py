"""Everything that changes a project, its members and its invitations."""
