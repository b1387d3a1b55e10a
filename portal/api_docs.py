"""The API's own description: the OpenAPI document and a page to try it, both offline."""

from functools import cache

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpResponse
from django.urls import path
from django.utils import translation
from django.utils.decorators import method_decorator
from django.views.generic import TemplateView
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request

NOTATIONS = {renderer.format: renderer for renderer in SpectacularAPIView.renderer_classes}


@method_decorator(login_not_required, name="dispatch")
class SchemaView(SpectacularAPIView):
    """The document is the same as docs/openapi.yaml; it holds nothing of anybody."""

    authentication_classes = ()
    permission_classes = ()

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        renderer = request.accepted_renderer
        title = settings.SPECTACULAR_SETTINGS["TITLE"]
        return HttpResponse(
            written(_language(request), renderer.format),
            content_type=f"{renderer.media_type}; charset=utf-8",
            headers={"Content-Disposition": f'inline; filename="{title}.{renderer.format}"'},
        )


def _language(request: Request) -> str:
    asked = request.GET.get("lang", "")
    return asked if asked in dict(settings.LANGUAGES) else translation.get_language()


@cache
def written(language: str, notation: str) -> bytes:
    """Return the document as it is sent.

    It takes half a second of a processor and anybody may ask: it is made once for a language and
    a notation, and does not change while a process runs.
    """
    with translation.override(language):
        document = SchemaGenerator().get_schema(public=True)
        text = NOTATIONS[notation]().render(document)
    return text.encode() if isinstance(text, str) else bytes(text)


class DocsView(TemplateView):
    """Swagger UI from the sidecar package; our script starts it, as the strict policy wants."""

    template_name = "portal/api_docs.html"


urlpatterns = [
    path("api/v1/schema", SchemaView.as_view(), name="api-schema"),
    path("api/docs", DocsView.as_view(), name="api-docs"),
]
