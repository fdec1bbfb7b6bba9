"""Pages of the built site in real headless Chromium, watched for errors and for requests elsewhere."""

import functools
import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path

from playwright.sync_api import Browser, Page
from tests.conftest import PATIENT_MS

READING = """
window.reading = 0;
const later = window.setTimeout.bind(window), fetched = window.fetch.bind(window);
const ended = () => later(() => { window.reading -= 1; });
const counted = (promise) => { window.reading += 1; return promise.finally(ended); };
window.fetch = (...given) => counted(fetched(...given));
for (const form of ["arrayBuffer", "blob", "json", "text"]) {
  const read = Response.prototype[form];
  Response.prototype[form] = function () { return counted(read.call(this)); };
}
window.setTimeout = (act, wait, ...given) => {
  if (wait) { return later(act, wait, ...given); }
  window.reading += 1;
  return later(() => { try { act(...given); } finally { ended(); } });
};
"""
"""Counts the files that a page is reading, and its postponed work, until both are done. A browser's own sign, half a
second of silence, would take most of the time of a test."""
READ = "() => document.readyState === 'complete' && window.reading === 0"
LEFT = "localStorage.clear(); sessionStorage.clear(); history.replaceState(null, '', '/left');"
"""Makes a page forget what a test did. The address becomes one that no page has, so that the next test loads its
page anew, even where only the part behind # differs; to load an empty page in between would take a third longer."""
SIZES = {"desk": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Give the address of a built site on this machine."""
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def opened(browser: Browser, address: str) -> Iterator[Page]:
    """Yield a page of a new context, whose scripts count what they read; close the context afterwards."""
    context = browser.new_context(base_url=address)
    context.set_default_timeout(PATIENT_MS)
    context.add_init_script(f"(() => {{{READING}}})()")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield context.new_page()
    context.close()


def watched(page: Page, address: str) -> Iterator[Page]:
    """Yield a page in the usual size and theme; afterwards clean it, and fail on errors and requests elsewhere."""
    elsewhere, errors = [], []
    listeners = {
        "request": lambda request: elsewhere.append(request.url) if not request.url.startswith(address) else None,
        "pageerror": lambda error: errors.append(str(error)),
        "console": lambda message: errors.append(message.text) if message.type == "error" else None,
    }
    if page.viewport_size != SIZES["desk"]:
        page.set_viewport_size(SIZES["desk"])
    page.emulate_media(color_scheme="light")
    for event, listener in listeners.items():
        page.on(event, listener)
    yield page
    if page.url.startswith(address):
        page.evaluate(LEFT)
    else:
        page.goto("about:blank")
    page.unroute_all()
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    assert elsewhere == []
    assert errors == []


def words_of(page: str) -> str:
    """Return the text of a page without its elements, such as links of terms to the glossary."""
    return unescape(re.sub("<[^>]+>", "", page))


def read(page: Page) -> Page:
    """Wait until a page has loaded and done what its scripts do at once; return it."""
    if page.evaluate("window.reading === undefined"):  # not opened by `opened`, or without scripts
        page.wait_for_load_state("networkidle")
    else:
        page.wait_for_function(READ)
    return page


def settled(page: Page, name: str) -> Page:
    page.goto(name)
    return read(page)


def on_site(page: Page) -> Page:
    """Return the page where it is, if that is on the site: for tests that call functions of its scripts."""
    return settled(page, "compare.html") if page.url == "about:blank" else page
