"""What is asked, and how."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Optional, TypedDict, Union

Pairs = Union[Mapping[str, str], Iterable[tuple[str, str]]]

#: Samples that a run keeps unless told otherwise: 64 MB at most.
SAMPLES = 1_000_000


@dataclass(frozen=True)
class Request:
    """One of the requests of a run."""

    url: str
    method: str = "GET"
    #: Headers beyond those that the generator sets; Host and User-Agent given here take the place of its own.
    headers: Pairs = ()
    #: Text is sent as UTF-8.
    body: Union[bytes, str] = b""
    #: How often it is asked in proportion to the others; where all weights are 1, requests are asked in turn.
    weight: int = 1


#: What load(), start() and Run take: a URL, a Request, or several of them.
What = Union[str, Request, Iterable[Union[str, Request]]]


class Options(TypedDict, total=False):
    """The options of a run; none is needed. Durations are seconds."""

    #: Connections open at a time, at most (10).
    connections: int
    #: Threads, each with a loop and its share of the connections (1).
    threads: int
    #: Stop after so many requests, failed ones included.
    requests: int
    #: Stop after this time (10, where neither requests nor repeat is given).
    duration: float
    #: Open loop: so many arrivals a second, which never wait for completions.
    rate: float
    #: Open loop whose rate changes: pairs (rate, seconds), or triples (rate at the begin, at the end, seconds).
    rates: Iterable[Union[tuple[float, float], tuple[float, float, float]]]
    #: Exponentially distributed times between arrivals (False).
    poisson: bool
    #: Where random numbers begin (1): the same seed gives the same arrivals and the same choice of requests.
    seed: int
    #: Arrivals that may wait in the generator for a connection; more are dropped and counted (100,000).
    queue: int
    #: Whether a connection carries more than one request (True).
    keepalive: bool
    #: Requests written in one go, before their responses (1; closed loop only).
    pipeline: int
    #: HTTP/2 with so many requests at a time on a connection.
    streams: int
    #: Give up on a connection or a response after this time (30).
    timeout: float
    #: Statuses that are a success: "200-299,404" ("200-399"). Latencies are those of successes.
    ok: str
    #: The CPU that the first thread is pinned to; further threads take those behind it.
    cpu: int
    #: How bytes come and go: "auto", "epoll" or "io_uring".
    io: str
    #: The time that a point of Result.series stands for (1).
    interval: float
    #: The method of URLs that are given as text ("GET").
    method: str
    #: Headers of all requests.
    headers: Pairs
    #: The body of URLs that are given as text.
    body: Union[bytes, str]
    #: Cookies that every request carries.
    cookies: Pairs
    #: Whether each connection, as a user of its own, sends back the cookies that its responses set (False).
    cookie_jar: bool
    #: A name and a password for basic authentication.
    user: tuple[str, str]
    #: A token for bearer authentication.
    bearer: str
    #: So many users come, each asking everything once, in order, over a connection of their own; `connections` is how
    #: many of them are under way at a time.
    repeat: int
    #: What such a user pauses between two requests (0); with `sessions`, where their file says nothing.
    think: float
    #: Users do what this file says, each over a connection of its own: the format of `weir load --sessions`, its paths
    #: belonging to the URL that is asked. `requests` and arrivals are then those of users.
    sessions: Union[str, os.PathLike[str]]
    #: The files of a workload, "specweb96" or "surge", asked by its laws; they lie below the URL that is asked.
    mix: str
    #: How many directories of specweb96 there are.
    directories: int
    #: How many files of surge there are.
    files: int
    #: With which random numbers the files were made (1).
    fileset_seed: int
    #: The line of each client, with its rates and latency: "modem", "56k", "isdn", "dsl", "cable", "fiber", "edge", "2g",
    #: "3g-slow", "3g", "4g" or "lte"; the three options below take the place of its parts.
    client: str
    #: Each connection reads so many bytes a second.
    limit_read: float
    #: Each connection writes so many bytes a second.
    limit_write: float
    #: What is added to every round trip.
    latency: float
    #: Users click stop after this time; such requests are in Result.stopped, and no errors.
    patience: float
    #: Believe any certificate (False).
    insecure: bool
    #: Believe the certificate authorities of this PEM file instead of the system's.
    ca: Union[str, os.PathLike[str]]
    #: The client's own certificate, and its key unless `key` is given (PEM).
    certificate: Union[str, os.PathLike[str]]
    key: Union[str, os.PathLike[str]]
    #: The name that the server is asked for and that its certificate must have, instead of the URL's host.
    server_name: str
    #: Whether a connection resumes the TLS session of a former one (False).
    resume: bool
    #: A Unix socket to connect to instead of the URL's host.
    unix: Union[str, os.PathLike[str]]
    #: The proxy to go through: http://, socks5://, socks5h://, socks4:// or socks4a://HOST:PORT.
    proxy: str
    #: Addresses of this host that connections come from, in turn.
    sources: Iterable[str]
    #: HOST:PORT to connect to instead of the URL's.
    connect_to: str
    #: The most samples that Result.samples keeps (1,000,000; 64 bytes each). Of more requests so many are drawn at
    #: random, each with the same chance, and Result.left_out counts the others.
    samples: int


def pairs(given: Pairs) -> list[tuple[str, str]]:
    """Name and value pairs, however they were given."""
    items = given.items() if isinstance(given, Mapping) else given
    return [(name, value) for name, value in items]


def as_bytes(body: Union[bytes, str]) -> bytes:
    return body.encode() if isinstance(body, str) else bytes(body)


def requests(what: What, options: Mapping[str, Any]) -> list[Request]:
    """The requests that are meant, with what the options say of all of them."""
    many = [what] if isinstance(what, (str, Request)) else list(what)
    headers = pairs(options.get("headers", ()))
    if "user" in options:
        from base64 import b64encode

        name, password = options["user"]
        headers.append(("Authorization", "Basic " + b64encode(f"{name}:{password}".encode()).decode()))
    if "bearer" in options:
        headers.append(("Authorization", f"Bearer {options['bearer']}"))
    method, body = options.get("method", "GET"), options.get("body", b"")
    asked = []
    for one in many:
        if isinstance(one, str):
            asked.append(Request(one, method, tuple(headers), as_bytes(body)))
        elif isinstance(one, Request):
            asked.append(Request(one.url, one.method, (*headers, *pairs(one.headers)), as_bytes(one.body), one.weight))
        else:
            raise TypeError(f"a URL or a weir.Request is asked for, not {one!r}")
    return asked


#: What requests() uses up.
_OF_REQUESTS = {"method", "headers", "body", "user", "bearer"}


def wanted(asked: list[Request], options: Mapping[str, Any]) -> dict[str, Any]:
    """A run in the form that the native part takes."""
    for name in options:
        if name not in Options.__annotations__:
            raise TypeError(f"there is no option {name!r}; see help(weir.Options)")
    given = {name: value for name, value in options.items() if name not in _OF_REQUESTS and value is not None}
    given["requests_list"] = [(one.url, one.method, pairs(one.headers), as_bytes(one.body), one.weight) for one in asked]
    given["weighted"] = any(one.weight != 1 for one in asked)
    given["cookies"] = pairs(given.get("cookies", ()))
    given["sources"] = list(given.get("sources", ()))
    given["rates"] = [(one[0], *one[-2:]) for one in map(tuple, given.get("rates", ()))]
    for name in ("ca", "certificate", "key", "unix", "sessions"):
        if name in given:
            given[name] = os.fspath(given[name])
    return given
