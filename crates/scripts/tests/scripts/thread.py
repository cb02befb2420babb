#!/usr/bin/python3
# expect: 2\nlate\n
# log: its threads run on after its end
import threading, time
threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
print("Content-Type: text/plain\n")
print(threading.active_count())
threading.Thread(target=lambda: print("late")).start()
