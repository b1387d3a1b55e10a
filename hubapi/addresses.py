"""Where a workload is found, under host routing and under path routing. Pure."""

from django.conf import settings

CALLBACK = "oauth_callback"


def host_routing() -> bool:
    return str(settings.BERTH_NOTEBOOK_ROUTING) == "host"


def workload_host(short_id: str) -> str:
    """Return the host name that a workload has in the browser, without port."""
    if host_routing():
        return f"{short_id}.{settings.BERTH_NOTEBOOK_DOMAIN}"
    return str(settings.BERTH_NOTEBOOK_PATH_HOST)


def workload_origin(short_id: str) -> str:
    scheme, port = settings.BERTH_NOTEBOOK_SCHEME, int(settings.BERTH_NOTEBOOK_PORT)
    standard = {"http": 80, "https": 443}.get(scheme)
    suffix = "" if port == standard else f":{port}"
    return f"{scheme}://{workload_host(short_id)}{suffix}"


def base_path(short_id: str) -> str:
    """Return the path under which the server answers; begins and ends with a slash."""
    return "/" if host_routing() else f"/ws/{short_id}/"


def workload_url(short_id: str) -> str:
    """Return the address that a browser opens."""
    return workload_origin(short_id) + base_path(short_id)


def route_key(short_id: str) -> str:
    """Return the key of the proxy's route: its first part is the host under host routing."""
    return f"/{workload_host(short_id)}" if host_routing() else f"/ws/{short_id}"


def callback_url(short_id: str) -> str:
    return workload_url(short_id) + CALLBACK


def redirect_uris(short_id: str) -> list[str]:
    """Return every callback that is accepted, compared as strings.

    Without JUPYTERHUB_OAUTH_CALLBACK_URL a server sends its callback as a bare path.
    """
    return [callback_url(short_id), base_path(short_id) + CALLBACK]


def short_id_of_host(host: str) -> str:
    """Return the workload's id in a Host header, or an empty string."""
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    suffix = f".{settings.BERTH_NOTEBOOK_DOMAIN}"
    if not host_routing() or not name.endswith(suffix):
        return ""
    return name.removesuffix(suffix)


def short_id_of_path(path: str) -> str:
    """Return the workload's id in a path under path routing, or an empty string."""
    parts = path.split("/", 3)
    if host_routing() or len(parts) < 3 or parts[1] != "ws":  # noqa: PLR2004 - "", "ws", id
        return ""
    return parts[2].split("?", 1)[0]
