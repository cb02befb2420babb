"""Streams for hypercorn, which speaks HTTP/2: ten events and the end, a stall of two seconds, or no end. A WebSocket (RFC 8441)
gets its messages back, but at /no."""

import asyncio


async def echo(scope, receive, send):
    await receive()
    if scope["path"] == "/no":
        await send({"type": "websocket.close"})
        return
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        content = {key: message[key] for key in ("bytes", "text") if message.get(key) is not None}
        await send({"type": "websocket.send", **content})


async def app(scope, receive, send):
    if scope["type"] == "websocket":
        await echo(scope, receive, send)
    if scope["type"] != "http":
        return
    start = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}
    await send(start)

    async def say(text, more):
        await send({"type": "http.response.body", "body": text, "more_body": more})

    for place in range(10):
        await asyncio.sleep(0.01)
        await say(b"data: %d\n\n" % place, True)
    if scope["path"] == "/stall":
        await asyncio.sleep(2)
    while scope["path"] == "/endless":
        await asyncio.sleep(0.01)
        await say(b"data: x\n\n", True)
    await say(b"data: [DONE]\n\n", False)
