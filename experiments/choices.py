"""The words of searches, in Katib's sense."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class Algorithm(TextChoices):
    """How the next values are chosen."""

    RANDOM = "random", _("Random")
    TPE = "tpe", _("Tree-structured Parzen estimator")
    CMAES = "cmaes", _("CMA-ES")
    SOBOL = "sobol", _("Sobol sequence")
    GRID = "grid", _("Every combination")


class Engine(TextChoices):
    """What chooses the values; how a search goes otherwise is the same."""

    OPTUNA = "optuna", _("Optuna, in this portal")
    KATIB = "katib", _("Katib, on the cluster")
    INSTEAD = "instead", _("Optuna, since Katib gave no values")


class Goal(TextChoices):
    """Whether more of the objective is better, or less."""

    MAXIMIZE = "maximize", _("Maximise")
    MINIMIZE = "minimize", _("Minimise")


class State(TextChoices):
    """How a search is."""

    RUNNING = "running", _("Running")
    STOPPING = "stopping", _("Stopping")
    SUCCEEDED = "succeeded", _("Succeeded")
    FAILED = "failed", _("Failed")
    STOPPED = "stopped", _("Stopped")


LIVE = (State.RUNNING, State.STOPPING)


class TrialState(TextChoices):
    """How a trial is."""

    RUNNING = "running", _("Running")
    SUCCEEDED = "succeeded", _("Succeeded")
    FAILED = "failed", _("Failed")
    STOPPED = "stopped", _("Stopped")
    EARLY_STOPPED = "early-stopped", _("Stopped early")
    METRIC_UNAVAILABLE = "metric-unavailable", _("Said no metric")


class Reason(TextChoices):
    """Why a search ended."""

    TRIALS = "max-trials", _("It tried as often as it may.")
    GRID = "all-tried", _("Every combination was tried.")
    GOAL = "goal-reached", _("A trial reached the goal.")
    GPU_HOURS = "gpu-hours", _("Its GPU-hours are spent.")
    FAILURES = "too-many-failed", _("Too many of its trials failed; their logs say why.")
    REFUSED = "refused", _("A trial could not be made.")
    USER = "stopped", _("It was stopped by request.")
    PROJECT = "project", _("Its project was archived or is being deleted.")
