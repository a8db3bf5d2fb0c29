# expect: accepted
import os

# Nothing of the sandbox in sight but the init of this run, and pids mean what they say.
mine = {"1", str(os.getpid())}
assert {name for name in os.listdir("/proc") if name.isdigit()} <= mine
assert os.readlink("/proc/self") == str(os.getpid())
print("ESCAPED")
