# expect: wrong_answer
escaped = False
for value in ("-1000", "0", "500"):
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(value)
        escaped = True
    except OSError:
        pass
print("ESCAPED" if escaped else "contained")
