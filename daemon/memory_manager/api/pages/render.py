"""HTML of the owner's pages: templates of this package, escaped, under one strict policy."""

from __future__ import annotations

import functools
import importlib.resources
from typing import Final

import jinja2
from aiohttp import web

from memory_manager.api.answers import HTML_TYPE
from memory_manager.api.routing import daemon_of

POLICY: Final = (
    "default-src 'self'; script-src 'none'; object-src 'none'; base-uri 'none';"
    " frame-ancestors 'none'"
)
"""No ``form-action``: browsers would apply it to the redirect that answers a consent, too."""

_PACKAGE: Final = "memory_manager.api.pages"
SCOPE_WORDS: Final = {
    "memory:read": "read your memories",
    "memory:write": "remember, change and forget",
    "memory:restore": "bring forgotten memories back",
    "ledger:read": "read your ledger",
    "ledger:write": "add to your ledger",
}


@functools.cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(_PACKAGE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["scope_words"] = scope_words
    environment.filters["age"] = age
    return environment


def load_templates() -> None:
    """Read and compile all of them, so that no request has to wait for a file."""
    environment = _templates()
    for name in environment.list_templates(extensions=["html"]):
        environment.get_template(name)
    stylesheet()
    icon()


def page(
    request: web.Request, template: str, status: int = 200, /, **values: object
) -> web.Response:
    """A page with what the frame of every page shows."""
    daemon = daemon_of(request)
    text = (
        _templates()
        .get_template(f"{template}.html")
        .render(
            auto_approve=daemon.settings.auto_approve,
            version=daemon.version,
            **{"signed_in": False, "csrf": "", "notice": None, "problem": None, **values},
        )
    )
    response = web.Response(text=text, status=status, content_type=HTML_TYPE)
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["X-Frame-Options"] = "DENY"
    # under "no-referrer" browsers send "Origin: null" with our own forms; nothing leaves our origin
    # either way, and a page whose address holds a sign-in code has no form
    response.headers["Referrer-Policy"] = "no-referrer" if template == "opened" else "same-origin"
    return response


def scope_words(name: str) -> str:
    """What a right means, for people."""
    return SCOPE_WORDS.get(name, name)


def age(seconds: int) -> str:
    """A duration as people say it."""
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{seconds} seconds"


@functools.cache
def _static(name: str) -> str:
    return importlib.resources.files(_PACKAGE).joinpath("static", name).read_text("utf-8")


def stylesheet() -> web.Response:
    return web.Response(text=_static("style.css"), content_type="text/css")


def icon() -> web.Response:
    return web.Response(text=_static("icon.svg"), content_type="image/svg+xml")
