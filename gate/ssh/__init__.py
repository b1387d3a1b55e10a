"""SSH into workspaces: ``ssh <workspace id>@host`` with a key registered in the portal."""
