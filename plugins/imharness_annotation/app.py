"""The page that annotators use: one question at a time, answered by a click or a key.

Every change is a POST that carries the session's token. The session is a signed, HttpOnly, SameSite=Strict cookie, and
the book knows it until its owner leaves. Session and length are checked before any part of a body is read.
Requests for other host names than the one served are refused, so that no other page can reach the application.
"""

from __future__ import annotations

import hmac
import re
import secrets
from importlib.resources import files
from urllib.parse import parse_qsl

from jinja2 import Environment, PackageLoader, select_autoescape
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from imharness.errors import UsageError
from imharness.files import plain
from imharness_annotation.book import Book

LONGEST_NAME = 60
BODY = 16 << 10
"""The most bytes of a form; the longest form has a name, a token, a number and an answer."""
FIELDS = 10
FORM = "application/x-www-form-urlencoded"
ITEM = re.compile(r"[0-9]{1,18}")
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
    "better": "Which image is of higher quality, more realistic, and closer to the original?",
    "2afc": "Which image is closer to the original?",
    "jnd": "Two images are shown, one after the other. Are they the same?",
}
SHOWN_MS, GAP_MS = 1000, 250
"""How long each image of a just noticeable difference is shown, and nothing between them (LPIPS, section 2.2)."""


class Pages:
    """The routes of the application, for one book."""

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
            Route("/image/{item}/{side}", self.image),
            Route("/static/{name}", self.static),
        ]

    async def welcome(self, request: Request) -> Response:
        """Show the page that asks for the annotator's name."""
        return self._page("welcome.html", request)

    async def enter(self, request: Request) -> Response:
        """Start a session under the name that was given."""
        form = await self._checked(request)
        name = plain(form.get("name", ""))[:LONGEST_NAME].strip()
        if not name:
            return self._redirect("/")
        self._book.close_session(request.session.get("id", ""))
        request.session["id"] = self._book.open_session(name)
        return self._redirect("/judge")

    async def leave(self, request: Request) -> Response:
        """End the session; the votes stay."""
        await self._checked(request)
        self._book.close_session(request.session.get("id", ""))
        request.session.clear()
        return self._redirect("/")

    async def judge(self, request: Request) -> Response:
        """Show the next question, or that all is done."""
        annotator = self._book.annotator(request.session.get("id", ""))
        if not annotator:
            return self._redirect("/")
        question, (done, total) = self._book.following(annotator), self._book.progress(annotator)
        kind = self._book.about("kind")
        fields = {
            "annotator": annotator,
            "done": done,
            "total": total,
            "kind": kind,
            "title": TITLES[kind],
            "timed": (SHOWN_MS, GAP_MS) if kind == "jnd" else None,
            "told": self._book.trained(annotator),
        }
        if question is None:
            return self._page("finished.html", request, **fields)
        answers = list(zip(KEYS, question.choices, strict=False))
        return self._page("judge.html", request, item=question, answers=answers, **fields)

    async def vote(self, request: Request) -> Response:
        """Write the answer, then show the next question."""
        annotator, form = self._annotator(request), await self._checked(request)
        item = form.get("item", "")
        if not ITEM.fullmatch(item):
            raise HTTPException(400, "there is no such question")
        try:
            self._book.vote(int(item), annotator, form.get("answer", ""))
        except UsageError as error:
            raise HTTPException(400, str(error)) from error
        return self._redirect("/judge")

    async def undo(self, request: Request) -> Response:
        """Take back the latest answer."""
        annotator = self._annotator(request)
        await self._checked(request)
        self._book.undo(annotator)
        return self._redirect("/judge")

    async def image(self, request: Request) -> Response:
        """Return one image of a question, if the visitor has given a name."""
        self._annotator(request)
        item, side = request.path_params["item"], request.path_params["side"]
        valid = ITEM.fullmatch(item) and side in ("reference", "left", "right")
        content = self._book.image(int(item), side) if valid else None
        if content is None:
            raise HTTPException(404)
        return Response(content, media_type="image/png", headers=HEADERS)

    async def static(self, request: Request) -> Response:
        """Return the style sheet or the script."""
        name = request.path_params["name"]
        if name not in ASSETS:
            raise HTTPException(404)
        text = (files("imharness_annotation") / "static" / name).read_text(encoding="utf-8")
        return Response(text, media_type=ASSETS[name], headers=HEADERS)

    async def _checked(self, request: Request) -> dict[str, str]:
        """Return the fields of a form that carries the session's token; nothing is read for those without a session."""
        token = request.session.get("token", "")
        if not token:
            raise HTTPException(403, "this form does not come from this page; reload the page")
        if request.headers.get("content-type", "").partition(";")[0].strip() != FORM:
            raise HTTPException(415, "this is not a form of this page")
        length = request.headers.get("content-length", "0")
        if not ITEM.fullmatch(length) or int(length) > BODY:
            raise HTTPException(413, f"a form has at most {BODY} bytes")
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > BODY:
                raise HTTPException(413, f"a form has at most {BODY} bytes")
        try:
            form = dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS))
        except ValueError:
            raise HTTPException(400, "this form cannot be read") from None
        if not hmac.compare_digest(form.get("token", "").encode(), token.encode()):
            raise HTTPException(403, "this form does not come from this page; reload the page")
        return form

    def _annotator(self, request: Request) -> str:
        name = self._book.annotator(request.session.get("id", ""))
        if not name:
            raise HTTPException(403, "enter your name first")
        return name

    def _page(self, template: str, request: Request, **fields: object) -> Response:
        token = request.session.setdefault("token", secrets.token_urlsafe(32))
        return HTMLResponse(self._templates.get_template(template).render(token=token, **fields), headers=HEADERS)

    def _redirect(self, path: str) -> Response:
        return RedirectResponse(path, status_code=303, headers=HEADERS)


def application(book: Book, hosts: list[str]) -> Starlette:
    """Return the application; only requests to one of `hosts` are answered."""
    middleware = [
        Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False),
        Middleware(SessionMiddleware, secret_key=book.about("secret"), same_site="strict", session_cookie="annotate"),
    ]
    return Starlette(routes=Pages(book).routes(), middleware=middleware)
