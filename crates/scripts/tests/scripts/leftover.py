#!/usr/bin/python3
# body: 0123456789 and more than the script reads
# expect: 0123\n
import sys
print("Content-Type: text/plain\n")
print(sys.stdin.buffer.read(4).decode())
