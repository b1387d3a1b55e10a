from runtime import reconcilers
from runtime.routers.base import RouteEntry
from runtime.spec import Mount, WorkloadSpec
from runtime.workload import WorkloadReconciler
from tests.engineapp.models import Note, Thing


class ThingReconciler(WorkloadReconciler):
    kind = "thing"
    model = Thing
    related = ()

    def spec_of(self, row):
        tokens = [f"token-{row.launch}"]
        if row.tokens != tokens:
            Thing.objects.filter(pk=row.pk).update(tokens=tokens)
        return WorkloadSpec(
            uid=str(row.uid),
            kind=self.kind,
            name=row.name,
            launch=row.launch,
            generation=row.generation,
            project=str(row.project_uid),
            owner=str(row.owner_uid),
            environment="test",
            command=("true",),
            secret_env=lambda: {"SECRET": f"{row.uid}-{row.launch}"},
            resources=row.resources,
            mounts=(Mount(volume_uid=f"home-{row.owner_uid}", role="home"),),
        )

    def before_stop(self, row):
        Thing.objects.filter(pk=row.pk).update(tokens=[])

    def route_of(self, row, observation):
        host = row.name if row.name.startswith("host-") else f"thing-{row.uid}"
        return RouteEntry(f"/{host}", f"http://{observation.address}", str(row.uid))


def note(transition):
    row = transition.row
    if isinstance(row, Thing):
        for word, message in transition.outcome.timeline:
            Note.objects.create(thing=row, launch=row.launch, word=word, message=message)


reconcilers.on_transition(note)
