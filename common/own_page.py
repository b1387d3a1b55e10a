"""Whether a request with a person's cookies was made by a page of the portal itself.

The cookies come along from any page of the same site, and a workspace's pages are of the portal's
site. What changes something is refused by Django's check of the CSRF token and the Origin. What
only reads can't be read there, but a stream that stays open takes one of the few that its person
may have.
"""

from django.http import HttpRequest


def is_foreign(request: HttpRequest) -> bool:
    """Whether another page's script or element asks; a link that a person follows is not foreign,
    but a frame that a page fills with it is.

    Told by the browser: by Sec-Fetch-Site where it says so (TLS, and localhost), else by the Origin
    that comes with what a script of another page wants to read.
    """
    if site := request.headers.get("Sec-Fetch-Site"):
        goes = request.headers.get("Sec-Fetch-Mode") == "navigate"
        follows = goes and request.headers.get("Sec-Fetch-Dest", "document") == "document"
        return site not in {"same-origin", "none"} and not follows
    origin = request.headers.get("Origin")
    return origin is not None and origin != f"{request.scheme}://{request.get_host()}"
