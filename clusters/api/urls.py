"""Mounted below /api/v1/. No trailing slashes."""

from django.urls import path

from clusters.api import views

_ONE = "clusters/<slug:cluster>"

urlpatterns = [
    path("clusters", views.ClusterList.as_view(), name="api-clusters"),
    path(_ONE, views.ClusterDetail.as_view(), name="api-cluster"),
    path(f"{_ONE}/kubeconfig", views.ClusterKubeconfig.as_view(), name="api-cluster-kubeconfig"),
    path(f"{_ONE}/nodes", views.ClusterNodes.as_view(), name="api-cluster-nodes"),
    path(f"{_ONE}/checks", views.ClusterChecks.as_view(), name="api-cluster-checks"),
    path(f"{_ONE}/pools", views.PoolList.as_view(), name="api-cluster-pools"),
    path(f"{_ONE}/pools/<str:pool>", views.PoolDetail.as_view(), name="api-cluster-pool"),
    path(f"{_ONE}/networks", views.NetworkList.as_view(), name="api-cluster-networks"),
    path(
        f"{_ONE}/networks/<str:network>", views.NetworkDetail.as_view(), name="api-cluster-network"
    ),
    path("flavors", views.FlavorList.as_view(), name="api-flavors"),
    path("flavors/<str:flavor>", views.FlavorDetail.as_view(), name="api-flavor"),
]
