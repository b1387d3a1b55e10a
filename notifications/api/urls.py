"""Mounted below /api/v1/."""

from django.urls import path

from notifications.api import views

app_name = "notifications-api"
urlpatterns = [
    path("me/notifications", views.NotificationsView.as_view(), name="list"),
    path("me/notifications/read", views.NotificationsReadView.as_view(), name="read-all"),
    path("me/notifications/<uuid:uid>/read", views.NotificationReadView.as_view(), name="read"),
    path("me/notification-settings", views.WishesView.as_view(), name="settings"),
    path("announcements", views.AnnouncementsView.as_view(), name="announcements"),
]
