#!/usr/bin/python3
# expect: parent\nchild\nagain\n
import os, subprocess, sys
print("Content-Type: text/plain\n\nparent", flush=True)
child = os.fork()
if child:
    os.waitpid(child, 0)
    subprocess.run(["echo", "again"])
else:
    print("child")
    sys.exit()
