"""An application for gunicorn that tells of each request its method, its target and the bytes of its body."""


def application(environ, start_response):
    count = 0
    while piece := environ["wsgi.input"].read(65536):
        count += len(piece)
    seen = f"{environ['REQUEST_METHOD']} {environ['RAW_URI']} {count}"
    start_response("200 OK", [("X-Seen", seen), ("Content-Length", "0")])
    return [b""]
