# expect: wrong_answer
import os

for _ in range(2000):
    try:
        os.mkdir("deep")
        os.chdir("deep")
    except OSError:
        break
os.chmod(".", 0)
print("contained")
