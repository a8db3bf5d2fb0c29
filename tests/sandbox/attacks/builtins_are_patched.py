# expect: wrong_answer or runtime_error
import builtins

builtins.isinstance = lambda *args: True
builtins.map = builtins.list = builtins.str = builtins.repr = lambda *args: ["ESCAPED"]


def attack(x):
    return 0
