# expect: memory_limit or wrong_answer
written = 0
try:
    for number in range(60):
        with open(f"file{number}", "wb") as file:
            file.write(b"x" * (10 << 20))
        written += 1
except OSError:
    pass
print("ESCAPED" if written == 60 else "contained")
