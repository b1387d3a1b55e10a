"""The addresses of the pages of one kind of work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import URLPattern, path

from work.ui import bulk, launch, views

if TYPE_CHECKING:
    from work.ui.pages import Pages


def urls_for(pages: Pages) -> list[URLPattern]:
    """Return all pages of a kind, each a view of its own with that kind's rights."""
    every = f"projects/<slug:project>/{pages.routes}/"
    one = f"{every}<slug:{pages.kind.word}>/"
    detail, settings = views.Detail.of(pages), launch.Settings.of(pages)
    deeds = {"deeds": bulk.deeds_of(pages), "list_route": f"{pages.routes}:list"}
    found: list[tuple[str, Any, str]] = [
        (every, views.List.of(pages), "list"),
        (f"{every}act/", bulk.BulkAct.of(pages, **deeds), "bulk"),
        (f"{every}new/", launch.New.of(pages), "new"),
        (f"{every}new/plan/", launch.NewPlan.of(pages), "plan"),
        (one, detail, "detail"),
        (f"{one}state/", views.State.of(pages), "state"),
        (f"{one}start/", views.Start.of(pages, stands_on=detail), "start"),
        (f"{one}stop/", views.Stop.of(pages, stands_on=detail), "stop"),
        (f"{one}delete/", views.Delete.of(pages, stands_on=settings), "delete"),
        (f"{one}logs/", views.Logs.of(pages), "logs"),
        (f"{one}logs/download/", views.LogDownload.of(pages), "log-download"),
        (f"{one}events/", views.Events.of(pages), "events"),
        (f"{one}yaml/", views.Yaml.of(pages), "yaml"),
        (f"{one}settings/", settings, "settings"),
    ]
    return [path(where, view.as_view(), name=name) for where, view, name in found]
