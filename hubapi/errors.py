"""What the OAuth side answers when it refuses."""


class OAuthError(Exception):
    """An RFC 6749 error; its description is shown by the notebook server."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(description)
        self.error = error
        self.description = description
