"""Going to the provider and coming back."""

from typing import Any

from allauth.account.internal.decorators import login_not_required
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from django.http import Http404, HttpRequest, HttpResponse
from requests import RequestException

from accounts.oidc.adapter import OidcAdapter
from common.errors import Unavailable


class CallbackView(OAuth2CallbackView):
    adapter: OidcAdapter

    def _get_state(self, request: HttpRequest, provider: Any) -> tuple[Any, Any]:
        state, response = super()._get_state(request, provider)
        self.adapter.login_state = state
        return state, response


@login_not_required
def login(request: HttpRequest) -> HttpResponse:
    try:
        return OAuth2LoginView.adapter_view(OidcAdapter(request))(request)
    except SocialApp.DoesNotExist as error:
        raise Http404 from error
    except (RequestException, OAuth2Error, ValueError, KeyError) as error:
        raise Unavailable("Single sign-on does not answer. Try again in a minute.") from error


@login_not_required
def callback(request: HttpRequest) -> HttpResponse:
    try:
        return CallbackView.adapter_view(OidcAdapter(request))(request)
    except SocialApp.DoesNotExist as error:
        raise Http404 from error
