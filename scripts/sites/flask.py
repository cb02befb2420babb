"""A Flask site by gunicorn below a prefix: redirects, sessions, uploads and downloads, fields of its own."""

import hashlib

from stand import ROOT, answers, ask, configuration, expect, free_port

NEEDS = ["gunicorn", "/usr/lib/python3/dist-packages/flask"]


def run(stand):
    port = free_port()
    command = ["gunicorn", "--worker-class=gthread", "--threads=4", f"--bind=127.0.0.1:{port}", "flask_site:app"]
    stand.start("gunicorn", command, lambda: answers(port), cwd=ROOT / "scripts/sites/programs", user=stand.user)
    text = configuration("Django, Flask", **{"127.0.0.1:8000": f"127.0.0.1:{port}", "/srv/www/site/static": stand.directory("static")})
    stand.serve(text)
    page = stand.page()
    page.open(stand.address + "/")
    page.fill(name="Ämilie")
    page.press("#login [type=submit]")
    page.has("Hello, Ämilie")
    expect(page.value("location.href") == stand.address + "/hello", f"after the redirect: {page.where()}")
    file = stand.folder / "upload.bin"
    content = hashlib.shake_256(b"weir").digest(5_000_000)
    file.write_bytes(content)
    page.choose_file("[type=file]", file)
    page.press("#upload [type=submit]")
    page.has(hashlib.sha256(content).hexdigest())
    stand.picture(page, "upload")
    page.no_failures()
    back = page.value(
        "(async () => { const bytes = await (await fetch('/download')).arrayBuffer();"
        " const digest = await crypto.subtle.digest('SHA-256', bytes);"
        " return [...new Uint8Array(digest)].map(one => one.toString(16).padStart(2, '0')).join(''); })()"
    )
    expect(back == hashlib.sha256(b"line of a download\n" * 100_000).hexdigest(), f"the download is another one: {back}")
    expect(page.value("document.cookie").count("seen=yes") == 1, "the second cookie of the response")
    page.open(stand.address + "/missing")
    page.has("the application's own page")
    around(stand)


def around(stand):
    status, fields, body = ask(stand.address + "/packed", Accept_Encoding="gzip")
    expect(fields.get_all("Content-Encoding") == ["gzip"] and body[:2] == b"\x1f\x8b", f"compressed once: {fields}")
    import gzip

    expect(gzip.decompress(body) == b"packed by the application" * 1000, "what the application has packed")
    status, fields, body = ask(stand.address + "/download", "HEAD")
    expect(status == 200 and not body, f"HEAD: {status} {fields}")
    status, fields, body = ask(stand.address + "/file", Range="bytes=5-9")
    expect(status == 206 and len(body) == 5 and "Content-Range" in fields, f"a range: {status} {fields}")
    status, fields, _ = ask(stand.address + "/file")
    status, _, body = ask(stand.address + "/file", If_None_Match=fields["ETag"])
    expect(status == 304 and not body, f"what the client has: {status}")
    status, fields, _ = ask(stand.address + "/hello", "POST")
    expect(status == 405 and "GET" in fields["Allow"], f"a method: {status} {fields}")
    status, fields, _ = ask(stand.address + "/login", "POST", b"name=a", Content_Type="application/x-www-form-urlencoded")
    expect(status == 302 and fields["Location"] == "/hello", f"the redirect: {status} {fields}")
    expect(len(fields.get_all("Set-Cookie")) == 2, f"two cookies: {fields.get_all('Set-Cookie')}")
    status, _, body = ask(stand.address + "/echo?a=%2F&b=c%20d", "PUT", b"x" * 100_000)
    expect(body == b"PUT /echo?a=%2F&b=c%20d 100000 http", f"what the application sees: {body}")
    status, _, _ = ask(stand.address + "/nothing", "DELETE")
    expect(status == 204, f"no content: {status}")
