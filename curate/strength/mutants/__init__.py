"""The mistakes that make a right program wrong, with a file for each kind of mistake.

Each file has a function `mutate(node)`, which yields the nodes that might be in the place of this node if the author
had made the mistake. The function changes nothing, and the nodes may share their children with the original node.
`hard_coded.py` is different: it ignores the program and takes its answers from the tests. `_node_positions.py` finds
the places for mistakes, and `mutation.py` lists the kinds and chooses among the places.
"""
