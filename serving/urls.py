"""The pages of endpoints and models."""

from django.urls import include, path

from serving.ui.pages import PAGES
from work.ui.urls import urls_for

urlpatterns = [
    path("", include((urls_for(PAGES), PAGES.routes))),
    path("", include("serving.ui.models")),
    path("", include("serving.ui.batch")),
]
