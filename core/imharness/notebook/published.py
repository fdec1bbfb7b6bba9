"""`load_leaderboard`: a published leaderboard, from the folder of its site or from its address. Imports no torch."""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from imharness.errors import UsageError
from imharness.exports.marks import standing_of
from imharness.notebook.arguments import address_of
from imharness.notebook.beside import with_rows_of
from imharness.notebook.load import TABLES, joined, leaderboards_in, of_leaderboard
from imharness.notebook.result import Result
from imharness.notebook.writing import pandas_module
from imharness.reading.opening import MIB, read_bytes
from imharness.reading.structured import parsed_json
from imharness.results.version import SCHEMA

if TYPE_CHECKING:
    import pandas

LARGEST = 64 * MIB
"""The size up to which results are read, bytes."""
PATIENCE_S = 60.0
"""How long a server may be silent, and how long it may take in total, s; one second more for each 256 KiB."""
CHUNK = 256 << 10
HERE = ("127.0.0.1", "::1", "localhost")
"""Names of this machine, from which results are also read without encryption."""


@dataclass(frozen=True, repr=False)
class PublishedLeaderboard(Result):
    """A published leaderboard: its tables, as a result has them, with ranks and findings as data frames.

    Args:
        release: the name of the published state; "" for a site that was built but not published.
    """

    release: str = ""

    def with_mine(self, mine: Result) -> PublishedLeaderboard:
        """Return the leaderboard with entries of your own beside those that are published; nothing is sent anywhere.

            leaderboard.with_mine(ih.load("store"))

        The rows stand first in the tables that both have, without a rank: ranks need the score of each image.
        Rankings and findings stay those that were published.

        Args:
            mine: what `harness run` or `imharness.run` measured with the profile, seed and limit of the leaderboard,
                with one of its entries beside yours, such as ``--defense none --defense acme/mine``: its numbers show
                whether this machine gives those that are published. Of a secret split, which you do not have, they
                are held against the published intervals.

        Raises:
            UsageError: the settings or the numbers of an entry in both differ, or there is no entry of your own.
        """
        if not isinstance(mine, Result):
            raise UsageError('mine: expected a result, such as imharness.load("store").')
        return replace(self, table_list=with_rows_of(self, mine))

    def standings(self) -> pandas.DataFrame:
        """Return where each entry of each ranking stands, a row for each; raises `Unavailable` without pandas.

        ``tier`` is the first of these that fits: "control", "incomplete", "flagged", "costs too much", "may be best",
        "behind". ``gate`` says whether the entry keeps the utility that it must keep. ``flags`` are the reasons why its
        numbers are not to be trusted, and ``standing`` says in words what keeps it from winning; either may be empty.
        """
        columns = ("table", "entry", "tier", "winner", "control", "complete", "gate", "front", "flags", "standing")
        rows = [
            (
                ranking.table,
                label,
                _tier(standing, label in ranking.may_be_best),
                label == ranking.winner,
                standing.control,
                standing.complete,
                standing.gate,
                standing.front,
                "; ".join(standing.flags),
                standing_of(standing),
            )
            for ranking in self.rankings
            for label, standing in ranking.places.items()
        ]
        return _frame(columns, rows)

    def findings_dataframe(self) -> pandas.DataFrame:
        """Return the findings, a row for each sentence; raises `Unavailable` without pandas.

        ``tier`` is "shown", "ruled out" or "open"; ``entry`` is of whom the sentence ``text`` speaks, ``measure`` what
        was measured, and ``unit`` what an independent unit is.
        """
        columns = ("table", "tier", "kind", "entry", "measure", "unit", "text")
        rows = [
            (ranking.table, finding.tier, finding.kind, finding.entry, finding.measure, finding.unit, finding.text)
            for ranking in self.rankings
            for finding in ranking.findings
        ]
        return _frame(columns, rows)


def load_leaderboard(site: str | os.PathLike[str]) -> PublishedLeaderboard:
    """Return a published leaderboard from the folder of its site, or from its address.

        leaderboard = ih.load_leaderboard("https://example.org/leaderboard")
        leaderboard.to_dataframe(), leaderboard.standings(), leaderboard.findings_dataframe()

    `to_dataframe` returns the main table or a named one; its units are those that a result's tables have, see
    ``help(leaderboard.table().to_dataframe)``.

    Only one file is read, ``data/results.json``, of at most 64 MiB. If several tracks have
    tables, the names of tables begin with the track, as in ``iqa/ranking``.

    Args:
        site: a folder with a site, or its address, which begins with ``https://``. Sites on this machine may also be
            read by ``http://localhost``.

    Raises:
        UsageError: the place is no site, the site is not reached, or it was made by another version of the format.
    """
    location = address_of("site", site, "a folder, or the address of a site")
    if "://" in location:
        where = _results_of(location)
        content = _fetched(where)
    else:
        file = Path(location) / TABLES
        if not file.is_file():
            raise UsageError(f"site: {location} has no {TABLES.as_posix()}; give the folder of a site that was built.")
        where, content = str(file), read_bytes(file, LARGEST)
    facts = parsed_json(content, f"site: {where}")
    version = facts.get("schema_version") if isinstance(facts, dict) else None
    if version != SCHEMA:
        raise UsageError(f"site: {where} has the format {version!r}; this version of the harness reads {SCHEMA!r}.")
    leaderboards = leaderboards_in(facts, f"site: {where}")
    if not leaderboards:
        raise UsageError(f"site: {where} has no leaderboard.")
    results = [of_leaderboard(leaderboard) for leaderboard in leaderboards]
    whole = joined(results, location)
    return PublishedLeaderboard(
        whole.title,
        whole.table_list,
        failed=whole.failed,
        missing=whole.missing,
        leaderboards=whole.leaderboards,
        release=str(facts.get("release", "")),
    )


def _tier(standing: Any, may_be_best: bool) -> str:
    if standing.control:
        return "control"
    if not standing.complete:
        return "incomplete"
    if standing.flags:
        return "flagged"
    if not standing.able:
        return "costs too much"
    return "may be best" if may_be_best else "behind"


def _frame(columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> pandas.DataFrame:
    return pandas_module().DataFrame(rows, columns=list(columns))


def _results_of(address: str) -> str:
    """Return the address of the results of a site; raises `UsageError` for one that is not encrypted."""
    url = _allowed(address)
    path = url.path.removesuffix("index.html").removesuffix("/")
    path = path if path.endswith(".json") else f"{path}/{TABLES.as_posix()}"
    return urllib.parse.urlunsplit((url.scheme, url.netloc, path, "", ""))


def _allowed(address: str) -> urllib.parse.SplitResult:
    try:
        url = urllib.parse.urlsplit(address)
        host = url.hostname
        port_is_number = url.port is None or url.port >= 0
    except ValueError:
        host, port_is_number = None, False
    if not host or not port_is_number or url.username is not None:
        raise UsageError(f"site: {address!r:.200} is not the address of a site.")
    if url.scheme != "https" and not (url.scheme == "http" and host in HERE):
        raise UsageError(f"site: {address!r:.200} must begin with https://.")
    return url


class _StaysEncrypted(urllib.request.HTTPRedirectHandler):
    """Follows a redirection only to an address that could have been given."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        _allowed(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _fetched(address: str) -> bytes:
    """Return what an address holds; raises a `UsageError` of one line."""
    latest = time.monotonic() + PATIENCE_S
    content = bytearray()
    try:
        opener = urllib.request.build_opener(_StaysEncrypted)
        with opener.open(address, timeout=PATIENCE_S) as answer:
            promised = answer.headers.get("Content-Length", "")
            while chunk := answer.read(CHUNK):
                content += chunk
                if len(content) > LARGEST:
                    raise UsageError(f"site: {address} has more than {LARGEST // MIB} MiB.")
                if time.monotonic() > latest + len(content) / CHUNK:
                    raise UsageError(f"site: {address} answers too slowly; try again.")
    except urllib.error.HTTPError as error:
        raise UsageError(
            f"site: {address} answers {error.code} {error.reason}; is it a site of this harness?"
        ) from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error or type(error).__name__
        raise UsageError(f"site: {address} is not reached: {' '.join(str(reason).split())}.") from None
    if promised.isdigit() and len(content) < int(promised):
        raise UsageError(f"site: {address} broke off after {len(content)} of {promised} bytes; try again.")
    return bytes(content)
