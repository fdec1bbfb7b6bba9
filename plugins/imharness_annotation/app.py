"""The page that annotators use: one question at a time, answered by a click or a key.

Every change is a POST that carries the session's token. The session is a signed, HttpOnly, SameSite=Strict cookie.
Requests for other host names than the one served are refused, so that no other page can reach the application.
"""

from __future__ import annotations

import hmac
import secrets
from importlib.resources import files

from jinja2 import Environment, PackageLoader, select_autoescape
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from imharness.images import UsageError
from imharness_annotation.book import Book

LONGEST_NAME = 60
KEYS = "123456789abcdefghijklmnopqrst"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
ASSETS = {"annotate.css": "text/css", "annotate.js": "text/javascript"}
TITLES = {
    "class": "What does this image show?",
    "pair": "Do both images show the same thing or person?",
    "better": "Which image has the better quality?",
}


class Pages:
    """The routes, over one book."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._templates = Environment(
            loader=PackageLoader("imharness_annotation"), autoescape=select_autoescape(default=True)
        )

    def routes(self) -> list[Route]:
        return [
            Route("/", self.welcome),
            Route("/enter", self.enter, methods=["POST"]),
            Route("/leave", self.leave, methods=["POST"]),
            Route("/judge", self.judge),
            Route("/vote", self.vote, methods=["POST"]),
            Route("/undo", self.undo, methods=["POST"]),
            Route("/image/{item:int}/{side}", self.image),
            Route("/static/{name}", self.static),
        ]

    async def welcome(self, request: Request) -> Response:
        """Show the page that asks for the annotator's name."""
        return self._page("welcome.html", request)

    async def enter(self, request: Request) -> Response:
        """Start a session under the name that was given."""
        form = await self._checked(request)
        name = " ".join(str(form.get("name", "")).split())[:LONGEST_NAME]
        if not name:
            return self._redirect("/")
        request.session["annotator"] = name
        return self._redirect("/judge")

    async def leave(self, request: Request) -> Response:
        """End the session; the votes stay."""
        await self._checked(request)
        request.session.clear()
        return self._redirect("/")

    async def judge(self, request: Request) -> Response:
        """Show the next question, or that all is done."""
        annotator = request.session.get("annotator")
        if not annotator:
            return self._redirect("/")
        asked, (done, total) = self._book.following(annotator), self._book.progress(annotator)
        kind = self._book.about("kind")
        shown = {"annotator": annotator, "done": done, "total": total, "kind": kind, "title": TITLES[kind]}
        if asked is None:
            return self._page("finished.html", request, **shown)
        answers = list(zip(KEYS, asked.choices, strict=False))
        return self._page("judge.html", request, item=asked, answers=answers, **shown)

    async def vote(self, request: Request) -> Response:
        """Write the answer, then show the next question."""
        form = await self._checked(request)
        try:
            self._book.vote(int(str(form.get("item"))), self._annotator(request), str(form.get("answer")))
        except (ValueError, OverflowError, UsageError) as error:
            raise HTTPException(400, str(error)) from error
        return self._redirect("/judge")

    async def undo(self, request: Request) -> Response:
        """Take back the latest answer."""
        await self._checked(request)
        self._book.undo(self._annotator(request))
        return self._redirect("/judge")

    async def image(self, request: Request) -> Response:
        """Return one image of a question, if the visitor has given a name."""
        self._annotator(request)
        side = request.path_params["side"]
        found = self._book.image(request.path_params["item"], side) if side in ("left", "right") else None
        if found is None:
            raise HTTPException(404)
        return Response(found, media_type="image/png", headers=HEADERS)

    async def static(self, request: Request) -> Response:
        """Return the style sheet or the script."""
        name = request.path_params["name"]
        if name not in ASSETS:
            raise HTTPException(404)
        text = (files("imharness_annotation") / "static" / name).read_text()
        return Response(text, media_type=ASSETS[name], headers=HEADERS)

    async def _checked(self, request: Request):
        form = await request.form()
        token = request.session.get("token", "")
        if not token or not hmac.compare_digest(str(form.get("token", "")), token):
            raise HTTPException(403, "this form is not from this page; reload it")
        return form

    def _annotator(self, request: Request) -> str:
        name = request.session.get("annotator")
        if not name:
            raise HTTPException(403, "tell your name first")
        return str(name)

    def _page(self, template: str, request: Request, **shown: object) -> Response:
        token = request.session.setdefault("token", secrets.token_urlsafe(32))
        return HTMLResponse(self._templates.get_template(template).render(token=token, **shown), headers=HEADERS)

    def _redirect(self, path: str) -> Response:
        return RedirectResponse(path, status_code=303, headers=HEADERS)


def application(book: Book, hosts: list[str]) -> Starlette:
    """Return the application; only requests to one of `hosts` are answered."""
    middleware = [
        Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False),
        Middleware(SessionMiddleware, secret_key=book.about("secret"), same_site="strict", session_cookie="annotate"),
    ]
    return Starlette(routes=Pages(book).routes(), middleware=middleware)
