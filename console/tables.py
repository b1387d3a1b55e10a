"""The console's lists. Cells use the same badges and times as every page."""

from typing import Any, ClassVar
from urllib.parse import urlencode

import django_tables2 as tables
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from accounts.models import PlatformRole
from clusters.models import label_of
from common.templatetags import berth as tags
from console import selectors
from console.views.base import Table
from console.words import via_words
from events.verbs import details_of, outcome_words, words_of

END: dict[str, Any] = {"td": {"class": "end"}, "th": {"class": "end"}}


def maybe_url(name: str, **kwargs: Any) -> str:
    try:
        return reverse(name, kwargs=kwargs)
    except NoReverseMatch:
        return ""


def linked(url: str, text: Any) -> Any:
    return format_html('<a href="{}">{}</a>', url, text) if url else text


class UserTable(Table):
    username = tables.Column(verbose_name=_("Person"), order_by=("username",))
    email = tables.Column(verbose_name=_("E-mail"), default=tags.NOTHING)
    platform_role = tables.Column(verbose_name=_("Platform role"), empty_values=())
    project_count = tables.Column(verbose_name=_("Projects"), attrs=END)
    last_login = tables.Column(verbose_name=_("Last sign-in"), empty_values=())
    is_active = tables.Column(verbose_name=_("State"))

    class Meta:
        attrs: ClassVar[Any] = {"aria_label": _("People")}
        order_by = "username"

    def render_username(self, record: Any) -> Any:
        return format_html(
            '<a href="{}"><strong>{}</strong></a><br><span class="text-secondary">{}</span>',
            reverse("console:user", kwargs={"user": record.uid}),
            record.label,
            record.username,
        )

    def render_platform_role(self, record: Any) -> Any:
        if not record.platform_role:
            return record.get_platform_role_display()
        return tags.badge(record.get_platform_role_display(), "info", "shield")

    def render_last_login(self, record: Any) -> Any:
        return tags.ago(record.last_login, _t("never"))

    def render_is_active(self, record: Any) -> Any:
        if record.is_active:
            return tags.badge(_t("Active"), "good")
        if record.is_refused:
            return tags.badge(_t("Refused by the identity provider"), "warning", "ban")
        return tags.badge(_t("Disabled"), "quiet", "ban")


class ProjectTable(Table):
    name = tables.Column(verbose_name=_("Project"))
    member_count = tables.Column(verbose_name=_("Members"), attrs=END)
    running = tables.Column(verbose_name=_("Running"), empty_values=(), orderable=False, attrs=END)
    gpus = tables.Column(verbose_name=_("GPUs held"), empty_values=(), orderable=False, attrs=END)
    memory = tables.Column(
        verbose_name=_("Memory held"), empty_values=(), orderable=False, attrs=END
    )
    created_at = tables.Column(verbose_name=_("Made"))
    archived_at = tables.Column(verbose_name=_("State"), empty_values=())
    limits = tables.Column(verbose_name="", empty_values=(), orderable=False, attrs=END)

    class Meta:
        attrs: ClassVar[Any] = {"aria_label": _("Projects")}
        order_by = "name"

    def before_render(self, request: Any) -> None:  # noqa: ARG002 - signature of the library
        self.use = selectors.use_of([row.record.pk for row in self.paginated_rows])

    def _used(self, record: Any, key: str) -> int:
        return self.use.get(record.pk, {}).get(key, 0)

    def render_name(self, record: Any) -> Any:
        url = maybe_url("projects:overview", project=record.slug) or maybe_url(
            "projects:detail", project=record.slug
        )
        return format_html(
            '{}<br><span class="text-secondary">{}</span>', linked(url, record.name), record.slug
        )

    def render_running(self, record: Any) -> Any:
        return self._used(record, "workspaces")

    def render_gpus(self, record: Any) -> Any:
        return self._used(record, "gpus")

    def render_memory(self, record: Any) -> Any:
        return tags.mib(self._used(record, "memory_mib"))

    def render_created_at(self, value: Any) -> Any:
        return tags.ago(value)

    def render_archived_at(self, record: Any) -> Any:
        if record.archived_at:
            return tags.badge(_t("Archived"), "quiet", "archive")
        return tags.badge(_t("Active"), "good")

    def render_limits(self, record: Any) -> Any:
        settings = maybe_url("projects:settings", project=record.slug)
        return format_html_join(
            " · ",
            "{}",
            [
                (linked(url, word),)
                for url, word in (
                    (reverse("console:limits", kwargs={"uid": record.uid}), _t("Limits")),
                    (settings, _t("Settings")),
                )
                if url
            ],
        )


class WorkspaceTable(Table):
    name = tables.Column(verbose_name=_("Workspace"))
    owner = tables.Column(verbose_name=_("Owner"), accessor="owner__username")
    project = tables.Column(verbose_name=_("Project"), accessor="project__name")
    phase = tables.Column(verbose_name=_("State"))
    where = tables.Column(
        verbose_name=_("Where it runs"), empty_values=(), order_by=("cluster_key", "node")
    )
    size = tables.Column(verbose_name=_("Size"), empty_values=(), orderable=False)
    gpus = tables.Column(verbose_name=_("GPUs"), attrs=END)
    phase_since = tables.Column(verbose_name=_("Since"), empty_values=())
    act = tables.Column(verbose_name="", empty_values=(), orderable=False, attrs=END)

    class Meta:
        attrs: ClassVar[Any] = {"aria_label": _("All workspaces")}

    def render_where(self, record: Any) -> Any:
        """Cluster and node; the node of what runs now only."""
        if record.cluster_name is None:
            return record.cluster_key
        place = {"cluster": record.cluster_key}
        name = label_of(record.cluster_key, record.cluster_name)
        cluster = linked(reverse("console:cluster", kwargs=place), name)
        if not record.node:
            return cluster
        nodes = f"{reverse('console:cluster-nodes', kwargs=place)}?{urlencode({'q': record.node})}"
        node = linked(nodes, record.node)
        return format_html('{}<br><span class="text-nowrap">{}</span>', cluster, node)

    def render_name(self, record: Any) -> Any:
        url = maybe_url("notebooks:detail", project=record.project.slug, workspace=record.short_id)
        return format_html(
            '{}<br><span class="text-secondary mono">{}</span>',
            linked(url, record.name),
            record.short_id,
        )

    def render_owner(self, record: Any) -> Any:
        return linked(
            reverse("console:user", kwargs={"user": record.owner.uid}), record.owner.label
        )

    def render_phase(self, record: Any) -> Any:
        return tags.phase(record.shown_phase, record.shown_word)

    def render_size(self, record: Any) -> Any:
        return _t("%(cpu)s CPU, %(memory)s") % {
            "cpu": tags.cpus(record.cpu_milli),
            "memory": tags.mib(record.memory_mib),
        }

    def render_phase_since(self, record: Any) -> Any:
        return tags.ago(record.phase_since or record.created_at)

    def render_act(self, record: Any) -> Any:
        if not self.view.principal.is_operator or record.is_ended or record.desired != "running":
            return ""
        mine = record.owner_id == self.view.principal.user.pk
        context = {
            "id": f"stop-{record.short_id}",
            "url": reverse("console:workspace-stop", kwargs={"workspace": record.uid}),
            "button": _t("Stop"),
            "about": record.name,
            "title": _t("Stop “%(name)s”") % {"name": record.name},
            "text": _t("What runs in it ends at once. Its files are kept."),
            "owner": "" if mine else record.owner.label,
            "icon": "player-stop",
            "refused": getattr(self.view.request, "berth_refused", None),
        }
        return render_to_string("components/reason.html", context, request=self.view.request)


class PresetTable(Table):
    name = tables.Column(verbose_name=_("Preset"))
    size = tables.Column(verbose_name=_("Size"), empty_values=(), orderable=False)
    gpus = tables.Column(verbose_name=_("GPUs"), attrs=END)
    time_limit_minutes = tables.Column(verbose_name=_("Time limit"), empty_values=())
    projects = tables.Column(verbose_name=_("For"), empty_values=(), orderable=False)
    is_active = tables.Column(verbose_name=_("State"))

    class Meta:
        attrs: ClassVar[Any] = {"aria_label": _("Presets")}

    def render_name(self, record: Any) -> Any:
        return format_html(
            '<a href="{}"><strong>{} {}</strong></a><br><span class="text-secondary">{}</span>',
            reverse("console:preset", kwargs={"preset": record.uid}),
            tags.icon(record.icon or "notebook"),
            record.name,
            record.description,
        )

    def render_size(self, record: Any) -> Any:
        return _t("%(cpu)s CPU, %(memory)s") % {
            "cpu": tags.cpus(record.cpu_milli),
            "memory": tags.mib(record.memory_mib),
        }

    def render_gpus(self, record: Any) -> Any:
        return f"{record.gpus} {','.join(record.resources.kinds)}".strip()

    def render_time_limit_minutes(self, record: Any) -> Any:
        if record.time_limit_minutes is None:
            return _t("none")
        return tags.duration(record.time_limit_minutes * 60)

    def render_projects(self, record: Any) -> Any:
        names = [project.name for project in record.projects.all()]
        return ", ".join(names) or _t("every project")

    def render_is_active(self, record: Any) -> Any:
        if record.is_active:
            return tags.badge(_t("Offered"), "good")
        return tags.badge(_t("Hidden"), "quiet", "eye-off")


class EventTable(Table):
    at = tables.Column(verbose_name=_("When"))
    actor_name = tables.Column(verbose_name=_("Who"), empty_values=())
    verb = tables.Column(verbose_name=_("What"))
    target_name = tables.Column(verbose_name=_("On"), empty_values=())
    outcome = tables.Column(verbose_name=_("Outcome"))
    ip = tables.Column(verbose_name=_("By way of"), empty_values=())

    class Meta:
        attrs: ClassVar[Any] = {"aria_label": _("Audit log")}
        orderable = False

    def render_at(self, value: Any) -> Any:
        return tags.exact(value)

    def render_actor_name(self, record: Any) -> Any:
        return record.actor_name or _t("Berth")

    def render_verb(self, record: Any) -> Any:
        return format_html(
            '{}<br><span class="mono text-secondary">{}</span>', words_of(record.verb), record.verb
        )

    def render_target_name(self, record: Any) -> Any:
        name = record.target_name or record.target_kind
        if record.message and not name:
            return details_of(record)
        if record.message:
            said = details_of(record)
            return format_html('{}<br><span class="text-secondary">{}</span>', name, said)
        return name

    def render_outcome(self, record: Any) -> Any:
        word = outcome_words(record.outcome)
        if record.outcome == "denied":
            return tags.badge(word, "warning", "ban")
        return tags.badge(word, "danger") if record.outcome == "failed" else word

    def render_ip(self, record: Any) -> Any:
        return " · ".join(part for part in (via_words(record.via), record.ip) if part)


class AnnouncementTable(Table):
    message = tables.Column(verbose_name=_("Message"))
    severity = tables.Column(verbose_name=_("Severity"))
    starts_at = tables.Column(verbose_name=_("From"))
    ends_at = tables.Column(verbose_name=_("Until"), empty_values=())
    created_by = tables.Column(verbose_name=_("By"))

    class Meta:
        attrs: ClassVar[Any] = {"aria_label": _("Announcements")}

    def render_message(self, record: Any) -> Any:
        return linked(reverse("console:announcement", kwargs={"uid": record.uid}), record.message)

    def render_severity(self, record: Any) -> Any:
        return tags.badge(record.get_severity_display(), record.severity)

    def render_starts_at(self, value: Any) -> Any:
        return tags.exact(value)

    def render_ends_at(self, record: Any) -> Any:
        return tags.exact(record.ends_at, _t("until it is removed"))


class GroupRoleTable(Table):
    group = tables.Column(verbose_name=_("Group"))
    project = tables.Column(verbose_name=_("Project"), empty_values=())
    role = tables.Column(verbose_name=_("Role"), empty_values=(), orderable=False)
    act = tables.TemplateColumn(
        template_name="console/_group_remove.html", verbose_name="", orderable=False, attrs=END
    )

    class Meta:
        attrs: ClassVar[Any] = {"aria_label": _("Groups")}
        order_by = "group"

    def render_project(self, record: Any) -> Any:
        if record.project is None:
            return _t("the platform")
        url = maybe_url("projects:overview", project=record.project.slug)
        return linked(url, record.project.slug)

    def render_role(self, record: Any) -> Any:
        if record.project is not None:
            return record.get_role_display()
        return tags.badge(PlatformRole(record.platform_role).label, "info", "shield")
