from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"

    def ready(self) -> None:
        from clusters.registry import register_lookup
        from clusters.where import lookup_of
        from jobs import checkpoints, goodput, listeners, output_copies, references
        from jobs.kind import JOB
        from jobs.models import Job
        from jobs.reconciler import JobReconciler
        from jobs.ui.pages import PAGES
        from jobs.ui.panels import copies, curves, panel
        from loaders.notices import made_for
        from runtime import reconcilers
        from work import kinds
        from work.ui import pages
        from work.ui.panels import panels

        kinds.register(JOB)
        pages.register(PAGES)
        panels.register(panel)
        panels.register(copies)
        panels.register(curves)
        panels.register(goodput.panel)
        made_for.register(output_copies.note_ended)
        made_for.register(checkpoints.note_ended)
        references.connect()
        reconcilers.register(JobReconciler())
        reconcilers.on_transition(listeners.on_transition)
        register_lookup(lookup_of(Job, lambda row: row.short_id))
