"""Second factors: their secrets are encrypted at rest."""

from typing import Any

from allauth.mfa.adapter import DefaultMFAAdapter

from accounts.crypto import seal, unseal


class MFAAdapter(DefaultMFAAdapter):
    def encrypt(self, text: str) -> str:
        return seal(text)

    def decrypt(self, encrypted_text: str) -> str:
        # A key that was thrown away makes the factor useless, not everything else broken.
        return unseal(encrypted_text) or ""

    def send_notification_mail(self, *args: Any, **kwargs: Any) -> None:
        super().send_notification_mail(*args, **kwargs)
