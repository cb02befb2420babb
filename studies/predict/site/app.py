"""A page that computes for some 3 ms, or the share of it that WORK says, and sleeps for WAIT_MS."""

import os
import time

ROUNDS = int(40_000 * float(os.environ.get("WORK", "1")))
WAIT_S = float(os.environ.get("WAIT_MS", "5")) / 1000


def app(environ, start_response):
    total = 0
    for number in range(ROUNDS):
        total += number * number
    time.sleep(WAIT_S)
    body = f"{total}\n".encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
