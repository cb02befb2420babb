"""A small site of Flask, as scripts/test-sites puts it behind the server."""

import gzip
import hashlib
import io

from flask import Flask, Response, redirect, request, send_file, session

app = Flask(__name__)
app.secret_key = "of a test"
FORMS = """<!doctype html><title>A site</title>
<form id=login method=post action=/login><input name=name><button type=submit>Log in</button></form>"""
UPLOAD = """<!doctype html><title>A site</title><h1>Hello, {name}</h1>
<form id=upload method=post action=/upload enctype=multipart/form-data><input type=file name=file><button type=submit>Send</button></form>"""


@app.get("/")
def home():
    return FORMS


@app.post("/login")
def login():
    session["name"] = request.form["name"]
    answer = redirect("/hello")
    answer.set_cookie("seen", "yes")
    return answer


@app.get("/hello")
def hello():
    return UPLOAD.format(name=session.get("name", "stranger"))


@app.post("/upload")
def upload():
    return hashlib.sha256(request.files["file"].read()).hexdigest()


@app.get("/download")
def download():
    return Response((b"line of a download\n" * 1000 for _ in range(100)), mimetype="text/plain")


@app.get("/file")
def file():
    return send_file(io.BytesIO(b"0123456789" * 10), mimetype="text/plain", etag="tag-of-the-file", conditional=True)


@app.get("/packed")
def packed():
    return Response(gzip.compress(b"packed by the application" * 1000), headers={"Content-Encoding": "gzip", "Content-Type": "text/plain"})


@app.put("/echo")
def echo():
    return f"PUT {request.full_path} {len(request.get_data())} {request.headers['X-Forwarded-Proto']}"


@app.delete("/nothing")
def nothing():
    return "", 204


@app.errorhandler(404)
def missing(_):
    return "the application's own page", 404
