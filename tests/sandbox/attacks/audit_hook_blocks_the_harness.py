# expect: runtime_error or wrong_answer
import sys


def hook(event, args):
    if event in ("open", "os.write", "compile", "import"):
        raise RuntimeError


sys.addaudithook(hook)


def attack(x):
    return 0
