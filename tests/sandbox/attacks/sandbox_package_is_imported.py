# expect: wrong_answer
try:
    import sandbox.jail.zygote  # noqa: F401
except ImportError:
    print("contained")
else:
    print("ESCAPED")
