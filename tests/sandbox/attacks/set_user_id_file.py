# expect: wrong_answer
import os

with open("tool", "w"):
    pass
os.chmod("tool", 0o6755)
print("contained" if os.statvfs(".").f_flag & os.ST_NOSUID else "ESCAPED")
