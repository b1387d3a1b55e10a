"""How people sign in: django-allauth, second factors, single sign-on, limits."""

from portal.settings.env import flag, number, text, words

_SECURE = text("PUBLIC_URL", "").startswith("https://")

ACCOUNT_ADAPTER = "accounts.adapters.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "optional"  # an address proves nothing until it is verified
ACCOUNT_CHANGE_EMAIL = True  # one address; the old one stays until the new one is verified
ACCOUNT_PREVENT_ENUMERATION = "strict"
ACCOUNT_EMAIL_NOTIFICATIONS = True
ACCOUNT_EMAIL_SUBJECT_PREFIX = "[Berth] "
ACCOUNT_SESSION_REMEMBER = None  # the person says so at sign-in; else until the browser closes
ACCOUNT_LOGOUT_ON_PASSWORD_CHANGE = False  # the others end, this one stays (the adapter)
ACCOUNT_REAUTHENTICATION_TIMEOUT = 15 * 60
ACCOUNT_DEFAULT_HTTP_PROTOCOL = "https" if _SECURE else "http"
ACCOUNT_USERNAME_BLACKLIST = ["root", "berth", "system", "api", "hub", "anonymous", "nobody"]
ACCOUNT_FORMS = {
    "login": "accounts.forms.LoginForm",
    "signup": "accounts.forms.SignupForm",
    "reset_password": "accounts.forms.ResetPasswordForm",
}
ACCOUNT_RATE_LIMITS = {
    "login": "60/m/ip",
    "login_failed": "20/m/ip,5/5m/key",
    "signup": "10/m/ip",
    "reset_password": "10/m/ip,3/10m/key",
}

SOCIALACCOUNT_ADAPTER = "accounts.adapters.SocialAccountAdapter"
SOCIALACCOUNT_STORE_TOKENS = False
SOCIALACCOUNT_EMAIL_AUTHENTICATION_AUTO_CONNECT = True  # once linked by address, then by subject
SOCIALACCOUNT_EMAIL_VERIFICATION = "none"  # said by the provider, or not stored at all
SOCIALACCOUNT_EMAIL_REQUIRED = False
SOCIALACCOUNT_REQUESTS_TIMEOUT = 5
BERTH_OIDC_SCOPES = words("OIDC_SCOPES")
# Link to the account whose own verified address the provider vouches for.
BERTH_OIDC_LINK_VERIFIED_EMAIL = flag("OIDC_LINK_VERIFIED_EMAIL")
# 0: the session ends with the provider's token (it is renewed while the provider agrees).
BERTH_OIDC_SESSION_MINUTES = number("OIDC_SESSION_MINUTES")
# What the provider's no to a refresh token ends: the session, or all that the person has.
BERTH_OIDC_REFUSED = text("OIDC_REFUSED")
# With "person": how often the provider is asked about each person.
BERTH_OIDC_ASK_SECONDS = number("OIDC_ASK_SECONDS")

MFA_ADAPTER = "accounts.adapters.MFAAdapter"
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes", "webauthn"]
MFA_TOTP_ISSUER = "Berth"
MFA_TOTP_TOLERANCE = 1
MFA_PASSKEY_LOGIN_ENABLED = True
# Browsers treat http://localhost as secure; anywhere else passkeys need https.
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = not _SECURE
# The second factor must not hang on a mail server that may not be there.
MFA_ALLOW_UNVERIFIED_EMAIL = True

USERSESSIONS_TRACK_ACTIVITY = False  # noted once a minute by accounts.middleware
BERTH_TRUST_FORWARDED_FOR = flag("TRUST_FORWARDED_FOR")

# Requests per minute and at one time, per person (or address), in each web process.
BERTH_API_RATE = number("API_RATE")
BERTH_API_CONCURRENCY = number("API_CONCURRENCY")
