"""How a right program is made wrong, one file for each kind of mistake.

A file has one function, `instead(node)`: the nodes that could stand in its place if the author had made that mistake
there. It changes nothing; a node it yields may share its children with the original. `hard_coded.py` is of another
kind: it ignores the program and answers from the tests. `mutation.py` lists the kinds and chooses places.
"""
