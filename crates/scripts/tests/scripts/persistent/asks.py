#!/usr/bin/python3
# What the runtime for Python can do, by the query.
import cgiplus

for number, request in enumerate(cgiplus.requests(), 1):
    query = request["QUERY_STRING"]
    request.write(f"Content-Type: text/plain\n\n{number} {query}\n")
    if query == "whole":
        body = request.body.read()
        print(len(body), body[:3].decode(), file=request)
    elif query == "part":
        request.write(request.body.read(3))
    elif query == "ask":
        print(request.callout("NOOP:")[:3], file=request)
    elif query == "long":
        for line in range(50000):
            print(line, file=request)
