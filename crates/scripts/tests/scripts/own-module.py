#!/usr/bin/python3
# expect: beside\n
import beside
print("Content-Type: text/plain\n\n" + beside.NAME)
