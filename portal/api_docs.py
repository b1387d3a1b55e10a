"""The API's own description: the OpenAPI document and a page to try it, both offline."""

from django.contrib.auth.decorators import login_not_required
from django.urls import path
from django.utils.decorators import method_decorator
from django.views.generic import TemplateView
from drf_spectacular.views import SpectacularAPIView


@method_decorator(login_not_required, name="dispatch")
class SchemaView(SpectacularAPIView):
    """The document is the same as docs/openapi.yaml; it holds nothing of anybody."""

    authentication_classes = ()
    permission_classes = ()


class DocsView(TemplateView):
    """Swagger UI from the sidecar package; our script starts it, as the strict policy wants."""

    template_name = "portal/api_docs.html"


urlpatterns = [
    path("api/v1/schema", SchemaView.as_view(), name="api-schema"),
    path("api/docs", DocsView.as_view(), name="api-docs"),
]
