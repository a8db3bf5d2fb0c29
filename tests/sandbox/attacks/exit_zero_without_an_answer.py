# expect: wrong_answer
import os

os._exit(0)
