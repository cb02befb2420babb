#!/usr/bin/python3
# expect: ''\n
import sys
print("Content-Type: text/plain\n")
print(repr(sys.stdin.read()))
