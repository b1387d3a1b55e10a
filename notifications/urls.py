"""Pages of notifications, mounted at the root."""

from django.urls import path

from notifications.ui import views

app_name = "notifications"
urlpatterns = [
    path("notifications/", views.NotificationList.as_view(), name="list"),
    path("notifications/bell", views.Bell.as_view(), name="bell"),
    path("notifications/read-all", views.ReadAll.as_view(), name="read-all"),
    path("notifications/settings", views.Settings.as_view(), name="settings"),
    path("notifications/<uuid:uid>/open", views.Open.as_view(), name="open"),
]
