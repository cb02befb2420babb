"""Streams for gunicorn: /tokens as a language model's server does, /lines as NDJSON, /slow in pieces, /stall, /endless."""

import time

from flask import Flask, Response

app = Flask(__name__)


def paused(pieces, pause_s=0.01):
    for piece in pieces:
        yield piece
        time.sleep(pause_s)


@app.route("/tokens")
def tokens():
    events = [f'data: {{"token": {place}}}\n\n' for place in range(10)] + ["data: [DONE]\n\n"]
    return Response(paused(events), mimetype="text/event-stream", headers={"X-Accel-Buffering": "no"})


@app.route("/lines")
def lines():
    return Response(paused(f'{{"token": {place}}}\n' for place in range(10)), mimetype="application/x-ndjson")


@app.route("/slow")
def slow():
    return Response(paused("x" * 1000 for _ in range(5)), mimetype="text/plain")


@app.route("/stall")
def stall():
    def events():
        yield "data: 1\n\n"
        time.sleep(0.05)
        yield "data: 2\n\n"
        time.sleep(2)
        yield "data: 3\n\n"

    return Response(events(), mimetype="text/event-stream")


@app.route("/endless")
def endless():
    def events():
        while True:
            yield ": still there\n\ndata: x\n\n"
            time.sleep(0.02)

    return Response(events(), mimetype="text/event-stream")
