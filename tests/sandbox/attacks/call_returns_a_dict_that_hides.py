# expect: wrong_answer
class Hidden(dict):
    __eq__ = lambda self, other: True
    __len__ = lambda self: 0
    items = keys = values = lambda self: []
    __iter__ = lambda self: iter("ESCAPED")


def attack(x):
    return Hidden(a=1)
