"""The words of models and endpoints."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy


class Framework(TextChoices):
    """What wrote a model's files, and so what can load them (``serving.runtimes``)."""

    SKLEARN = "sklearn", "scikit-learn"
    XGBOOST = "xgboost", "XGBoost"
    LIGHTGBM = "lightgbm", "LightGBM"
    ONNX = "onnx", "ONNX"
    TENSORFLOW = "tensorflow", "TensorFlow"
    PYTORCH = "pytorch", "PyTorch"
    TRITON = "triton", _("Triton model repository")
    HUGGINGFACE = "huggingface", "Hugging Face"
    CUSTOM = "custom", _("Its own server")


class Stage(TextChoices):
    """What a version is good for. Which endpoints serve it is another matter."""

    CANDIDATE = "candidate", _("Candidate")
    SERVING = "serving", _("Serving")
    RETIRED = "retired", _("Retired")


class Source(TextChoices):
    """Where the files of a version came from."""

    VOLUME = "volume", _("A folder of a volume")
    BUCKET = "bucket", _("A bucket")
    RUN = "run", _("A run of a job")
    UPLOAD = "upload", _("Uploaded")
    REGISTRY = "registry", _("An MLflow registry")


class Files(TextChoices):
    """How far the files of a version are."""

    COMING = "coming", _("Being brought")
    THERE = "there", pgettext_lazy("files of a model", "There")
    FAILED = "failed", _("Not brought")


class How(TextChoices):
    """By what an endpoint came to serve what it serves."""

    DEPLOYED = "deployed", _("Deployed")
    EDITED = "edited", _("Changed, with a restart")
    PROMOTED = "promoted", _("Canary promoted")
    ROLLED_BACK = "rolled-back", _("Rolled back")


class State(TextChoices):
    """What people read of an endpoint."""

    QUEUED = "queued", _("Queued")
    STARTING = "starting", _("Starting")
    READY = "ready", _("Ready")
    ASLEEP = "asleep", _("Asleep")
    STOPPING = "stopping", _("Stopping")
    STOPPED = "stopped", _("Stopped")
    FAILED = "failed", _("Failed")
    DELETING = "deleting", _("Being deleted")
