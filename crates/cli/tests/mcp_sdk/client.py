"""Drives weir mcp as an agent does, by the official SDK: client.py WEIR RECORDED-RUN."""

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import jsonschema
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import McpError

weir, recorded = (str(Path(argument).resolve()) for argument in sys.argv[1:3])


def check(what, holds):
    if not holds:
        sys.exit(f"not so: {what}")
    print(f"ok: {what}")


def serve(folder):
    (folder / "index.html").write_text("hello")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([weir, "serve", "--listen", f"127.0.0.1:{port}", str(folder)], stdout=subprocess.DEVNULL)
    for _ in range(500):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return server, f"http://127.0.0.1:{port}/"
        time.sleep(0.02)
    sys.exit("the server does not listen")


async def tools(session, url):
    listed = (await session.list_tools()).tools
    check("five tools", [tool.name for tool in listed] == ["explain", "compare", "load", "advise", "sql"])
    for tool in listed:
        jsonschema.Draft202012Validator.check_schema(tool.inputSchema)
        jsonschema.Draft202012Validator.check_schema(tool.outputSchema)
    check("the SDK finds the schemas right", True)
    resources = (await session.list_resources()).resources
    run = next(resource for resource in resources if str(resource.uri) == "weir://run/weir-runs/shop")
    text = (await session.read_resource(run.uri)).contents[0].text
    check("a run is read", json.loads(text)["records"] > 0)

    # The SDK itself holds each structured result against its schema.
    told = await session.call_tool("explain", {"run": "weir-runs/shop"})
    check("explain", not told.isError and 0 < told.structuredContent["uncertainty"]["joined_fraction"] <= 1)
    told = await session.call_tool("sql", {"run": "weir-runs/shop", "saved": "where-time-goes"})
    check("sql", not told.isError and len(told.structuredContent["rows"]) > 3)
    told = await session.call_tool("advise", {"run": "weir-runs/shop"})
    check("advise", not told.isError and "findings" in told.structuredContent)
    told = await session.call_tool("compare", {"run_a": "weir-runs/shop", "run_b": "weir-runs/shop"})
    check("compare of runs", not told.isError and told.structuredContent["figures"][0]["verdict"] in ("the_same", "cannot_tell"))
    told = await session.call_tool("compare", {"url_a": url, "url_b": url, "blocks": 6, "block_s": 0.2})
    check("compare of servers", not told.isError and told.structuredContent["uncertainty"]["blocks"] == 6)

    heard = []

    async def hear(done, total, message):
        heard.append((done, total))

    told = await session.call_tool("load", {"url": url, "duration_s": 2.5, "rate_per_s": 100}, progress_callback=hear)
    check("load", not told.isError and told.structuredContent["requests"] > 200)
    check("progress that only grows", len(heard) >= 2 and heard == sorted(heard))

    told = await session.call_tool("load", {"url": "http://192.0.2.1/"})
    check("another host is refused", told.isError and "--allow" in told.content[0].text)
    told = await session.call_tool("explain", {"run": "../../etc"})
    check("another folder is refused", told.isError)
    try:
        await session.call_tool("no-such-tool", {})
        check("an unknown tool is refused", False)
    except McpError as error:
        check("an unknown tool is refused", error.error.code == -32602)


async def cancelled(session, url):
    # The SDK gives up by its own clock; what is asked after it must not wait for the call's end.
    begun = time.monotonic()
    try:
        await session.call_tool("load", {"url": url, "duration_s": 20}, read_timeout_seconds=timedelta(seconds=1))
        check("a call that takes too long is given up", False)
    except McpError:
        check("a call that takes too long is given up", True)
    await session.send_ping()
    check("the session goes on meanwhile", time.monotonic() - begun < 5)


async def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        shutil.copytree(recorded, folder / "weir-runs" / "shop")
        site = folder / "site"
        site.mkdir()
        server, url = serve(site)
        try:
            asked = StdioServerParameters(command=weir, args=["mcp"], cwd=str(folder))
            async with stdio_client(asked) as (reading, writing):
                async with ClientSession(reading, writing) as session:
                    begun = await session.initialize()
                    check("the newest revision that weir speaks", begun.protocolVersion == "2025-06-18")
                    await tools(session, url)
                    await cancelled(session, url)
        finally:
            server.terminate()
            server.wait()


asyncio.run(main())
