# expect: wrong_answer
class Equal(str):
    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = lambda self: 0


def attack(x):
    return Equal("x")
