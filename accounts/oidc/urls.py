from django.urls import path

from accounts.oidc import views

urlpatterns = [
    path("oidc/login/", views.login, name="oidc_login"),
    path("oidc/callback/", views.callback, name="oidc_callback"),
]
