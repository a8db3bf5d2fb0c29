# expect: memory_limit or time_limit
kept = []
while True:
    try:
        kept.append(bytearray(b"x" * (10 << 20)))
    except MemoryError:
        pass
