# expect: runtime_error
def attack(x):
    return type("ndarray", (), {"__module__": "numpy", "tolist": lambda self: self})()
