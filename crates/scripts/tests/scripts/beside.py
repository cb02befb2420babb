# expect: The script failed; the server's log says why.\n
# status: 500
# log: a module is no script
import os
NAME = "beside"
if __name__ == "__main__":
    raise SystemError("a module is no script")
