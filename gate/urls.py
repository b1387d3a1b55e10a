"""Pages that talk to the gate. Its own paths (``/gate/…``) are served by the gate, not here."""

from django.urls import path

from gate.ui import views

app_name = "gate"

_ONE = "projects/<slug:project>/workspaces/<slug:workspace>/"

urlpatterns = [
    path("tickets/<path:way>", views.Ticket.as_view(), name="ticket"),
    path(f"{_ONE}terminal/", views.Terminal.as_view(), name="terminal"),
    path(f"{_ONE}files/", views.Files.as_view(), name="files"),
    path(f"{_ONE}cluster/", views.Objects.as_view(), name="objects"),
]
