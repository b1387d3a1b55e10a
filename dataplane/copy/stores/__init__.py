"""What each kind of store is asked and how its answers are read."""

from __future__ import annotations

from dataplane.copy.connector import Dialer
from dataplane.copy.plan import Plan
from dataplane.copy.stores.gcs import Gcs
from dataplane.copy.stores.hdfs import Hdfs
from dataplane.copy.stores.mlflow import Mlflow
from dataplane.copy.stores.s3 import S3


def open_store(plan: Plan, dialer: Dialer) -> S3 | Gcs | Hdfs | Mlflow:
    if plan.store.kind == "hdfs":
        return Hdfs(plan.store, dialer)
    if plan.store.kind == "mlflow":
        return Mlflow(plan.store, dialer)
    return Gcs(plan, dialer) if plan.store.kind == "gcs" else S3(plan.store, dialer)
