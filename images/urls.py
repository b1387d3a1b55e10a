"""The check of an image, as a part of a page."""

from django.urls import path

from images.ui import views

app_name = "images"

urlpatterns = [
    path("projects/<slug:project>/images/check", views.Check.as_view(), name="check"),
]
