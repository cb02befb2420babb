#!/usr/bin/python3
# expect: before\nat exit\n
# log: told %Q
import atexit, os, sys
print("Content-Type: text/plain\n\nbefore")
atexit.register(print, "at exit")
sys.exit("told " + os.environ["QUERY_STRING"])
