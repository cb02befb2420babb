#!/usr/bin/python3
# expect: The script failed; the server's log says why.\n
# status: 500
# log: ValueError: it broke, %Q
import os
raise ValueError("it broke, " + os.environ["QUERY_STRING"])
