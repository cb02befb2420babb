#!/usr/bin/python3
# expect: some\n
# log: ZeroDivisionError
print("Content-Type: text/plain\n\nsome")
1 / 0
