#!/usr/bin/python3
# expect: €\nraw\n
import codecs, os, sys
sys.stdout = codecs.getwriter("utf-8")(sys.stdout.detach())
sys.stdout.write("Content-Type: text/plain\n\n\u20ac\n")
sys.stdout.flush()
os.write(1, b"raw\n")
os.close(0)
os.close(1)
os.dup2(os.open("/dev/null", os.O_WRONLY), 2)
