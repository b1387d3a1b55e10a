from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"

    def ready(self) -> None:
        from jobs.kind import JOB
        from work import kinds

        kinds.register(JOB)
