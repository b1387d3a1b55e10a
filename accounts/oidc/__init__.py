"""OpenID Connect as an allauth provider, stricter than the one allauth brings.

A nonce of our own is sent and checked, the id_token's signature is always verified, its
subject must be the one of userinfo, and nobody can put parameters into the request.
"""
