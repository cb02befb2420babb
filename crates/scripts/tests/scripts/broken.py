#!/usr/bin/python3
# expect: The script failed; the server's log says why.\n
# status: 500
# log: SyntaxError
print(
