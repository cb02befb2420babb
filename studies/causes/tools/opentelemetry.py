"""What OpenTelemetry's spans say of a task: which span takes most of the requests' time."""

import json
import sys
import time
from collections import Counter
from datetime import datetime
from pathlib import Path

# All that the time of a span may be: spans begin and end, and do not say what a thread did between.
OWN = ["run", "wait_timer", "wait_lock", "wait_disk", "wait_cpu"]
ASKED = ["wait_process", "wait_network", "run", "wait_timer", "wait_disk", "wait_lock"]


def spans(text):
    """The spans that the console exporter wrote among other lines."""
    decoder, at = json.JSONDecoder(), 0
    while (at := text.find("{\n", at)) >= 0:
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            at += 1
            continue
        if isinstance(value, dict) and "context" in value:
            yield value


def seconds(span):
    begin, end = (datetime.fromisoformat(span[key].replace("Z", "+00:00")) for key in ("start_time", "end_time"))
    return (end - begin).total_seconds()


def whom(span):
    """Whom a span asked, and what."""
    attributes = span.get("attributes") or {}
    keys = ("db.system", "db.statement", "http.url", "url.full", "net.peer.name", "net.peer.port", "server.address")
    return " ".join([span["name"], *(str(attributes[key]) for key in keys if key in attributes)])


def main():
    task = json.loads(Path(sys.argv[1]).read_text())
    log = Path(task["folder"]) / "output.log"
    begun = log.stat().st_size
    time.sleep(task["seconds"] + 1)
    with open(log, errors="replace") as file:
        file.seek(begun)
        told = list(spans(file.read()))
    by_id = {span["context"]["span_id"]: span for span in told}
    wanted = "/" + task["url"].split("/", 3)[3]
    total, whole = Counter(), 0.0
    own = {}
    for span in told:
        if span["kind"].endswith("SERVER"):
            attributes = span.get("attributes") or {}
            if attributes.get("http.target", attributes.get("url.path", wanted)) == wanted:
                whole += seconds(span)
                own[span["context"]["span_id"]] = seconds(span)
    for span in told:
        if span["kind"].endswith("CLIENT") and span.get("parent_id") in own and span["parent_id"] in by_id:
            total[("asked", whom(span))] += seconds(span)
            own[span["parent_id"]] -= seconds(span)
    for span_id, left in own.items():
        total[("own", f"{by_id[span_id]['name']} of Flask in python")] += max(left, 0)
    causes = [
        {
            "parts": ASKED if kind == "asked" else OWN, "culprit": name,
            "text": f"{name}: {spent / whole * 100:.0f} % of the spans of {wanted}",
        }
        for (kind, name), spent in total.most_common(5) if whole > 0
    ]
    print(json.dumps({"causes": causes}))


main()
