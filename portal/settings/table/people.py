"""Settings of people: sign-in, single sign-on, mail."""

from portal.settings.kinds import (
    address,
    anything,
    choice,
    dotted,
    host,
    mail_address,
    port,
    whole,
    words,
    yes_or_no,
)
from portal.settings.table.row import Setting

GROUPS: dict[str, tuple[Setting, ...]] = {
    "People": (
        Setting(
            "SIGNUP_OPEN",
            yes_or_no(),
            False,
            "anybody may register",
        ),
        Setting(
            "PROJECT_CREATION",
            choice("anyone", "operators"),
            "anyone",
            "or `operators`",
        ),
        Setting(
            "API_RATE",
            whole(1),
            1200,
            "API requests a minute, per person and web process",
        ),
        Setting(
            "API_CONCURRENCY",
            whole(1),
            64,
            "API requests at one time, per person and web process",
        ),
    ),
    "Single sign-on": (
        Setting(
            "OIDC_NAME",
            anything(),
            "Single sign-on",
            "label of the button",
            otherwise="Single sign-on",
        ),
        Setting(
            "OIDC_ISSUER",
            address("http", "https"),
            "",
            "issuer address of the OpenID Connect provider",
            otherwise="none",
        ),
        Setting(
            "OIDC_CLIENT_ID",
            anything(),
            "",
            "client id there",
        ),
        Setting(
            "OIDC_CLIENT_SECRET",
            anything(),
            "",
            "client secret there",
            secret=True,
        ),
        Setting(
            "OIDC_GROUPS_CLAIM",
            anything(),
            "groups",
            "claim of id_token or userinfo that lists a person's groups; without it somebody is in"
            " none, and loses the roles that groups gave. Empty: this provider never sends groups,"
            " and roles stay as they are",
        ),
        Setting(
            "OIDC_SCOPES",
            words("scopes"),
            ["openid", "profile", "email"],
            "scopes asked for; add `offline_access` where refresh tokens need it",
        ),
        Setting(
            "OIDC_LINK_VERIFIED_EMAIL",
            yes_or_no(),
            True,
            "a verified address links to the account that verified the same",
        ),
        Setting(
            "OIDC_SESSION_MINUTES",
            whole(0, unit="minutes"),
            0,
            "0: the session ends with the provider's; else after this time",
        ),
        Setting(
            "OIDC_REFUSED",
            choice("session", "person"),
            "session",
            "what ends when the provider refuses to renew somebody's token (`invalid_grant`):"
            " `session`, or `person`: API tokens, SSH keys, kubeconfigs and running work as "
            "well, as if he were disabled, until he signs in again. Choose `person` where "
            "refresh tokens outlive the session at the provider (most need `offline_access` "
            "in `BERTH_OIDC_SCOPES`); holds for who signs in from then on",
        ),
        Setting(
            "OIDC_ASK_SECONDS",
            whole(1, unit="seconds"),
            40,
            "with `person`: how often the provider is asked about each person; a removed one "
            "is out ten seconds later than this at most, where the provider answers",
        ),
    ),
    "Mail": (
        Setting(
            "EMAIL_BACKEND",
            dotted(),
            "django.core.mail.backends.console.EmailBackend",
            "Django's mail backend",
            otherwise="console",
        ),
        Setting(
            "EMAIL_HOST",
            host(),
            "localhost",
            "mail server",
        ),
        Setting(
            "EMAIL_PORT",
            port(),
            25,
            "its port",
        ),
        Setting(
            "EMAIL_HOST_USER",
            anything(),
            "",
            "its user",
        ),
        Setting(
            "EMAIL_HOST_PASSWORD",
            anything(),
            "",
            "its password",
            secret=True,
        ),
        Setting(
            "EMAIL_USE_TLS",
            yes_or_no(),
            False,
            "STARTTLS",
        ),
        Setting(
            "FROM_EMAIL",
            mail_address(),
            "berth@localhost",
            "sender of mail",
        ),
    ),
}
