"""What a job says of itself: its fields, its rights, its words."""

from django.utils.translation import gettext_lazy as _

from jobs.models import Job
from projects.access import Permission
from work import fields as f
from work import standard_fields as s
from work.kinds import Kind

MAX_REPLICAS = 64
MAX_RETRIES = 20

REPLICAS = f.Count(
    name="replicas",
    label=_("Replicas"),
    help=_("Each has the size that is asked for; they reach each other by name."),
    low=1,
    high=MAX_REPLICAS,
)
RETRIES = f.Count(
    name="retries",
    label=_("Retries"),
    help=_("How often it runs again after its program ended badly."),
    high=MAX_RETRIES,
)
JOB = Kind(
    word=Job.KIND,
    document="Job",
    model=Job,
    one=_("Job"),
    many=_("Jobs"),
    icon="player-play",
    table=f.Table(
        *(s.NAME, s.ENVIRONMENT, s.IMAGE, s.COMMAND, s.ARGS, REPLICAS, *s.SIZE, *s.PLACE),
        *(s.ENV, RETRIES, s.TIME_LIMIT, *s.ATTACHED),
    ),
    create=Permission.JOB_CREATE,
    read=Permission.JOB_READ,
    manage=Permission.JOB_MANAGE,
    once=True,
)
