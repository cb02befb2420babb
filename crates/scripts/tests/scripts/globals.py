#!/usr/bin/python3
# What a script leaves behind must not reach the next run.
# expect: 1 0 __main__ globals.py True - 0o22 default 1000 True\nat exit\n
import builtins, os, random, signal, sys, warnings
count = globals().get("count", 0) + 1
print("Content-Type: text/plain\n")
print(count, getattr(builtins, "left", 0), __name__, os.path.basename(sys.argv[0]), os.path.exists("globals.py"),
      os.environ.get("LEFT", "-"), oct(os.umask(0)),
      "default" if signal.getsignal(signal.SIGALRM) == signal.SIG_DFL else "left", sys.getrecursionlimit(),
      sys.path[0] == os.getcwd())
import atexit
atexit.register(print, "at exit")
builtins.left = 1
os.environ["LEFT"] = "x"
signal.signal(signal.SIGALRM, lambda *_: None)
signal.alarm(100)
os.chdir("/")
sys.setrecursionlimit(500)
sys.path.insert(0, "/nowhere")
sys.argv.append("left")
warnings.simplefilter("error")
random.seed(1)
sys.excepthook = None
sys.stdin = None
