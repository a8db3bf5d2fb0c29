# expect: wrong_answer
import atexit
import os

atexit.register(os._exit, 0)
raise ValueError("turned into success")
