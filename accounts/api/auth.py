"""How a terminal signs in. Open to everybody; throttled by address."""

from dataclasses import asdict

from drf_spectacular.utils import extend_schema
from rest_framework.generics import GenericAPIView
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.base import NeverStored
from accounts.api.me import given
from accounts.api.serializers import DeviceIn, DeviceOut, DeviceTokenIn, DeviceTokenOut
from accounts.services import device_exchange, device_start
from common.middleware import client_ip


class _OpenView(NeverStored, GenericAPIView):
    """For visitors: nobody is signed in here, so no cookie can be misused."""

    authentication_classes = ()
    permission_classes = (AllowAny,)


class DeviceView(_OpenView):
    serializer_class = DeviceOut

    @extend_schema(
        operation_id="auth_device_start", request=DeviceIn, responses={200: DeviceOut}, auth=[]
    )
    def post(self, request: Request) -> Response:
        data = given(DeviceIn, request)
        started = device_start(client=data["client"], ip=client_ip(request._request))  # noqa: SLF001
        return Response(asdict(started))


class DeviceTokenView(_OpenView):
    serializer_class = DeviceTokenOut

    @extend_schema(
        operation_id="auth_device_token",
        request=DeviceTokenIn,
        auth=[],
        responses=DeviceTokenOut,
        description=(
            "428: nobody has approved it yet, ask again. 429: ask less often. "
            "410: expired, refused or used."
        ),
    )
    def post(self, request: Request) -> Response:
        token, secret = device_exchange(
            device_code=given(DeviceTokenIn, request)["device_code"],
            ip=client_ip(request._request),  # noqa: SLF001
        )
        return Response({"token": secret, "expires_at": token.expires_at})
