# expect: wrong_answer
import os

if input() == "1":
    try:
        with open(__file__, "a") as file:
            file.write("# mess" + "age")
    except OSError:
        pass
    print("first")
else:
    try:
        seen = "# mess" + "age" in open(__file__).read()
    except OSError:
        seen = False
    print("ESCAPED" if seen else "contained")
