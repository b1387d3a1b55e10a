"""``{% load queues %}{% project_queue project %}``: what a project has of each kind of GPU."""

from typing import Any

from django import template

from clusters.models import Cluster, Flavor
from projects.models import Project
from queues.selectors import of_project
from queues.sharing import NO_SHARE

register = template.Library()


@register.inclusion_tag("queues/_own.html")
def project_queue(project: Project) -> dict[str, Any]:
    """Show what is guaranteed, borrowed and waited for, where either is laid down or waited for."""
    own = [one for one in of_project(project) if one.use.share != NO_SHARE or one.use.waiting]
    if not own:
        return {"own": ()}
    clusters = {row.key: row.label for row in Cluster.objects.all()}
    kinds = dict(Flavor.objects.values_list("name", "label"))
    named = [(kinds.get(o.where[1], ""), clusters.get(o.where[0], ""), o.use) for o in own]
    return {"own": named}
