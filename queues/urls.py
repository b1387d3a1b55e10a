"""The operators' pages of the tree, below those of the console."""

from django.urls import path

from queues.ui import views

app_name = "queues"
_HERE = "console/queues"
urlpatterns = [
    path(f"{_HERE}/", views.Tree.as_view(), name="tree"),
    path(f"{_HERE}/new", views.Organisation.as_view(), name="create"),
    path(f"{_HERE}/two-groups", views.TwoGroups.as_view(), name="two-groups"),
    path(f"{_HERE}/history", views.History.as_view(), name="history"),
    path(f"{_HERE}/priorities/", views.PriorityList.as_view(), name="priorities"),
    path(f"{_HERE}/priorities/new", views.PriorityEdit.as_view(), name="priority-create"),
    path(f"{_HERE}/priorities/<slug:priority>/", views.PriorityEdit.as_view(), name="priority"),
    path(
        f"{_HERE}/priorities/<slug:priority>/delete",
        views.PriorityDelete.as_view(),
        name="priority-delete",
    ),
    path(f"{_HERE}/<uuid:part>/", views.Part.as_view(), name="part"),
    path(f"{_HERE}/<uuid:part>/delete", views.PartDelete.as_view(), name="part-delete"),
]
