"""The addresses of the pages of one kind of work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import URLPattern, path

from work.ui import acts, bulk, launch, verbs, views, waits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from work.ui.base import WorkView
    from work.ui.pages import Pages


def urls_for(pages: Pages, own: Mapping[str, type[WorkView]] | None = None) -> list[URLPattern]:
    """Return all pages of a kind, each a view of its own with that kind's rights.

    ``own`` are its own pages, instead of the common ones of that name or beside them.
    """
    own = dict(own or {})
    every = f"projects/<slug:project>/{pages.path or pages.routes}/"
    one = f"{every}<{'uuid' if pages.kind.key == 'uid' else 'slug'}:{pages.kind.word}>/"

    def of(name: str, usual: type[WorkView], **more: Any) -> Any:
        return own.pop(name, usual).of(pages, **more)

    detail, settings = of("detail", views.Detail), of("settings", launch.Settings)
    deeds = {"deeds": bulk.deeds_of(pages), "list_route": f"{pages.routes}:list"}
    found: list[tuple[str, Any, str]] = [
        (every, views.List.of(pages), "list"),
        (f"{every}act/", bulk.BulkAct.of(pages, **deeds), "bulk"),
        (f"{every}{pages.new_path}/", of("new", launch.New), "new"),
        (f"{every}{pages.new_path}/plan/", of("plan", launch.NewPlan), "plan"),
        (one, detail, "detail"),
        (f"{one}state/", of("state", views.State), "state"),
        (f"{one}delete/", views.Delete.of(pages, stands_on=settings), "delete"),
        (f"{one}logs/", of("logs", views.Logs), "logs"),
        (f"{one}logs/download/", of("log-download", views.LogDownload), "log-download"),
        (f"{one}events/", views.Events.of(pages), "events"),
        (f"{one}yaml/", of("yaml", views.Yaml), "yaml"),
        (f"{one}settings/", settings, "settings"),
    ]
    for verb in verbs.verbs_of(pages):
        press = verbs.PressToEnd if verb.ends else verbs.Press
        found.append(
            (f"{one}{verb.name}/", press.of(pages, verb=verb, stands_on=detail), verb.name)
        )
    if "gpus" in pages.kind.table:
        found.append((f"{one}change/", waits.Change.of(pages, stands_on=detail), "change"))
    if "time_limit_minutes" in pages.kind.table:
        found.append((f"{one}extend/", acts.Extend.of(pages), "extend"))
    if pages.kind.renews:
        found.append((f"{one}repin/", acts.Repin.of(pages), "repin"))
    if pages.kind.shared:
        found.append((f"{one}share/", acts.Share.of(pages, stands_on=detail), "share"))
        found.append((f"{one}unshare/", acts.Unshare.of(pages, stands_on=detail), "unshare"))
    found += [(f"{one}{name}/", view.of(pages), name) for name, view in own.items()]
    return [path(where, view.as_view(), name=name) for where, view, name in found]
