"""The pages of endpoints and models."""

from django.urls import include, path

from serving.ui.catalogue import Catalogue
from serving.ui.endpoints import OWN
from serving.ui.pages import PAGES
from work.ui.urls import urls_for

_CATALOGUE = "projects/<slug:project>/endpoints/catalogue/"
_pages = [
    # before any endpoint's own: their ids have ten letters
    path(_CATALOGUE, Catalogue.of(PAGES).as_view(), name="catalogue"),
    *urls_for(PAGES, OWN),
]
urlpatterns = [
    path("", include((_pages, PAGES.routes))),
    path("", include("serving.ui.models")),
    path("", include("serving.ui.batch")),
]
