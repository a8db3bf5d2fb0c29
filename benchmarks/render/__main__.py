"""python -m benchmarks.render"""

from benchmarks.render import main

if __name__ == "__main__":
    main()
