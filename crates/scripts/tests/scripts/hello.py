#!/usr/bin/python3
# expect: hello %Q\n
import os
print("Content-Type: text/plain\n\nhello", os.environ["QUERY_STRING"])
