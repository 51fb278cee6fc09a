"""OAuth without a person: registration, tokens, revocation (xmemo.md 10). Consent: api/pages."""

from __future__ import annotations

from typing import Final, cast

from aiohttp import web

from memory_manager.api.answers import json_response
from memory_manager.api.calls import Access, call_of
from memory_manager.api.labels import declared_name
from memory_manager.api.oauth_wire import bases_of, form_of, plain_error, plain_errors
from memory_manager.api.routing import Route, RouteHandler, daemon_of
from memory_manager.api.rules import BodyType
from memory_manager.auth.errors import InvalidRedirectUri
from memory_manager.auth.oauth_rules import check_redirect_uri, names_us
from memory_manager.auth.scopes import format_scopes, known_scopes
from memory_manager.vault.grants import GrantTokens

MAX_NAME_CHARACTERS: Final = 128
MAX_REDIRECT_URIS: Final = 16
MAX_FORM_BYTES: Final = 16_384

_GRANT_TYPES: Final = frozenset({"authorization_code", "refresh_token"})


async def register(request: web.Request) -> web.Response:
    """Dynamic registration (RFC 7591): it grants nothing. Unknown members are ignored."""
    body = call_of(request).json_object()
    uris = body.get("redirect_uris")
    if not isinstance(uris, list) or not 0 < len(uris) <= MAX_REDIRECT_URIS:
        return plain_error("invalid_redirect_uri", "redirect_uris names one to 16 addresses.")
    try:
        accepted = [check_redirect_uri(_string(uri)) for uri in cast("list[object]", uris)]
    except InvalidRedirectUri as error:
        return plain_error("invalid_redirect_uri", error.message)
    name = declared_name(_string(body.get("client_name"))[:MAX_NAME_CHARACTERS])
    client = daemon_of(request).logins.register(name, accepted)
    return json_response(
        {
            "client_id": client.id,
            "client_name": client.name,
            "redirect_uris": accepted,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "scope": " ".join(format_scopes(known_scopes(_string(body.get("scope"))))),
        },
        status=201,
    )


async def token(request: web.Request) -> web.Response:
    """A code or a refresh token for an access token that expires and the next refresh token."""
    form = form_of(call_of(request))
    grant_type, client_id = form.get("grant_type", ""), form.get("client_id", "")
    if grant_type not in _GRANT_TYPES:
        if not grant_type:
            return plain_error("invalid_request", "grant_type is missing.")
        return plain_error("unsupported_grant_type", "Use authorization_code or refresh_token.")
    daemon = daemon_of(request)
    if not names_us(form.get("resource", ""), bases_of(daemon)):
        return plain_error("invalid_target", "resource names another server.")
    if not client_id:
        return plain_error("invalid_request", "client_id is missing.")
    if grant_type == "refresh_token":
        tokens = await daemon.logins.refresh(form.get("refresh_token", ""), client_id)
        if tokens is None:
            return plain_error("invalid_grant", "The refresh token is not valid.")
        return _granted(tokens)
    if await daemon.logins.client(client_id) is None:
        return plain_error("invalid_client", "This client is not registered.")
    tokens = await daemon.logins.redeem(
        form.get("code", ""),
        client_id=client_id,
        redirect_uri=form.get("redirect_uri", ""),
        verifier=form.get("code_verifier", ""),
    )
    if tokens is None:
        return plain_error("invalid_grant", "The code is not valid, or was used before.")
    return _granted(tokens)


def _granted(tokens: GrantTokens) -> web.Response:
    return json_response(
        {
            "access_token": tokens.access_token,
            "token_type": "Bearer",
            "expires_in": tokens.expires_in_seconds,
            "refresh_token": tokens.refresh_token,
            "scope": " ".join(format_scopes(tokens.credential.scopes)),
        }
    )


async def revoke(request: web.Request) -> web.Response:
    """End the grant of a token; 200 also for a token nobody knows (RFC 7009)."""
    form = form_of(call_of(request))
    presented = form.get("token", "")
    if not presented:
        return plain_error("invalid_request", "token is missing.")
    ended = await daemon_of(request).logins.end_grant_of(presented, form.get("client_id") or None)
    if not ended:
        return plain_error("invalid_client", "The token belongs to another client.")
    return json_response({})


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _token_route(path: str, handler: RouteHandler) -> Route:
    return Route(
        "POST",
        path,
        handler,
        Access.OPEN,
        at_root=True,
        max_body_bytes=MAX_FORM_BYTES,
        body_type=BodyType.FORM_OR_JSON,
    )


_TOKEN: Final = plain_errors(token)
ROUTES: Final = (
    Route("POST", "/oauth/register", plain_errors(register), Access.OPEN, True, MAX_FORM_BYTES),
    _token_route("/oauth/token", _TOKEN),
    # where the official SDK refreshes after its restart, when it has not asked for metadata yet
    _token_route("/token", _TOKEN),
    _token_route("/oauth/revoke", plain_errors(revoke)),
)
