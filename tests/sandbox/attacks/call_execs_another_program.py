# expect: runtime_error
import os
import sys


def attack(x):
    os.execv(sys.executable, [sys.executable, "-c", "print('ESCAPED')"])
