# expect: memory_limit or output_limit or time_limit or runtime_error
def attack(x):
    bomb = [0]
    for _ in range(28):
        bomb = [bomb, bomb]
    return bomb
