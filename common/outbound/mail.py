"""Mail by SMTP, to a server whose certificate the operator's own authority may have signed."""

from __future__ import annotations

import ssl
from functools import cached_property

from django.core.mail.backends.smtp import EmailBackend

from common.outbound import trust


class SmtpBackend(EmailBackend):
    """Django's, and it believes the operator's own authority too."""

    @cached_property
    def ssl_context(self) -> ssl.SSLContext:
        return trust.authorities()
