from django.db import models
from django.utils.translation import gettext_lazy as _


class VolumeKind(models.TextChoices):
    HOME = "home", _("Home")
    PROJECT = "project", _("Project")
    DATA = "data", _("Data")


class WritePolicy(models.TextChoices):
    """Who may change the files of a volume that the project shares."""

    EVERYBODY = "everybody", _("Everybody in the project")
    MANAGERS = "managers", _("Only its maker and the project's managers")


class Medium(models.TextChoices):
    NVME = "nvme", _("NVMe")
    SSD = "ssd", _("SSD")
    HDD = "hdd", _("Hard disks")
    NETWORK = "network", _("Network storage")
    PARALLEL = "parallel", _("Parallel file system")
    CACHE = "cache", _("Cache")


class BackingKind(models.TextChoices):
    """What a class lies on. Each kind has a closed list of options (``volumes.backing``)."""

    DIRECTORY = "directory", _("Folder on the nodes")
    NFS = "nfs", _("NFS")
    NFS_CSI = "nfs-csi", _("NFS by its CSI driver")
    STORAGE_CLASS = "storage-class", _("Storage class")


class TransferState(models.TextChoices):
    ASKED = "asked", _("Asked")
    ACCEPTED = "accepted", _("Accepted")
    DECLINED = "declined", _("Declined")
    WITHDRAWN = "withdrawn", _("Withdrawn")
