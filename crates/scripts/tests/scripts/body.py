#!/usr/bin/python3
# body: a body
# expect: a body|\n
import sys
print("Content-Type: text/plain\n")
print(sys.stdin.read(), sys.stdin.read(), sep="|")
