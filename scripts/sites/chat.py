"""A Node program with WebSockets and server-sent events: a chat in two tabs, over HTTP/1.1 and over HTTP/2."""

import os
import time

from stand import ROOT, answers, configuration, expect, free_port

NEEDS = ["node", "/usr/share/nodejs/ws"]


def run(stand):
    port = free_port()
    environment = {**os.environ, "PORT": str(port), "NODE_PATH": "/usr/share/nodejs"}
    program = ROOT / "scripts/sites/programs/chat.js"
    stand.start("node", ["node", program], lambda: answers(port), env=environment, user=stand.user)
    text = configuration("Node", **{"127.0.0.1:3000": f"127.0.0.1:{port}"})
    for is_secure in (False, True):
        stand.serve(text, is_secure=is_secure)
        talk(stand, "over TLS" if is_secure else "in the clear")
        stand.end_server()
    expect("tunnel" not in stand.said("weir"), f"the server complains: {stand.said('weir')}")


def talk(stand, how):
    first, second = stand.page(), stand.page()
    for page in (first, second):
        page.open(stand.address + "/")
        page.until("window.socket && socket.readyState == 1", "an open WebSocket")
        page.until("window.events && events.readyState == 1", "open server-sent events")
    for page, word in ((first, f"hello {how}"), (second, f"answer {how}")):
        page.value(f"document.querySelector('[name=word]').value = {word!r}, document.querySelector('form').requestSubmit()")
        for one in (first, second):
            one.has(word)
    # Larger than any buffer on the way, in both directions.
    size = second.value(
        "new Promise((done, failed) => { const one = new WebSocket(socket.url.replace('chat', 'echo')); one.binaryType = 'arraybuffer';"
        " one.onopen = () => one.send(new Uint8Array(3000000).fill(7)); one.onerror = failed;"
        " one.onmessage = event => { one.close(1000, 'enough'); done(event.data.byteLength); }; })"
    )
    expect(size == 3_000_000, f"{how}: {size} bytes came back")
    # The program's own code and reason of a close reach the page.
    closed = second.value(
        "new Promise(done => { const one = new WebSocket(socket.url.replace('chat', 'leave'));"
        " one.onclose = event => done(event.code + ' ' + event.reason + ' ' + event.wasClean); })"
    )
    expect(closed == "4321 go home true", f"{how}: the close was {closed}")
    refused = second.value(
        "new Promise(done => { const one = new WebSocket(socket.url.replace('chat', 'refuse')); one.onclose = event => done(event.code); })"
    )
    expect(refused == 1006, f"{how}: a refused WebSocket closes with {refused}")
    # Each event is there when it was sent: the page counts while the response goes on.
    second.until("window.ticks >= 3", "three server-sent events")
    gaps = second.value("window.gaps")
    expect(max(gaps) > 50, f"{how}: the events came at once, {gaps} ms apart")
    stand.picture(first, how.replace(" ", "-"))
    first.no_failures()
    protocol = first.value("performance.getEntriesByType('navigation')[0].nextHopProtocol")
    expect(protocol == ("h2" if "TLS" in how else "http/1.1"), f"{how}: the page came by {protocol}")
    # A tab that is closed takes its WebSocket along.
    second.close()
    end = time.monotonic() + 20
    while first.value("fetch('/people').then(one => one.text())") != "1":
        expect(time.monotonic() < end, f"{how}: the program still has the socket of the closed tab")
        time.sleep(0.1)
    first.close()
