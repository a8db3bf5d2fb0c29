# expect: runtime_error
class Equal:
    __class__ = str
    __eq__ = lambda self, other: True
    __hash__ = lambda self: 0
    __getattr__ = lambda self, name: self
    __call__ = lambda self, *args: self


def attack(x):
    return Equal()
