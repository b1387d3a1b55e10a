"""What was learned of images. By digest, so that it is true for ever and for everybody."""

from django.db import models


class ImageFacts(models.Model):
    """One image for one kind of machine. Found only by whoever the registry gave the digest."""

    digest = models.CharField(max_length=71)  # what a reference is pinned to: index or manifest
    architecture = models.CharField(max_length=32)
    platforms = models.JSONField(default=list)  # all that the digest has
    size_bytes = models.PositiveBigIntegerField(default=0)  # of the layers, as they are pulled
    user = models.CharField(max_length=120, blank=True, default="")
    entrypoint = models.JSONField(default=list)
    command = models.JSONField(default=list)
    ports = models.JSONField(default=list)
    # what `jupyterhub-singleuser --version` said; "none": it is not there; "": not tried
    singleuser = models.CharField(max_length=32, blank=True, default="")
    singleuser_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["digest", "architecture"], name="images_facts_once")
        ]

    def __str__(self) -> str:
        return self.digest[:19]

    @property
    def runs_as_root(self) -> bool:
        return self.user.partition(":")[0] in {"", "0", "root"}
