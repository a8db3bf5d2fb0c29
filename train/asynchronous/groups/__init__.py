"""Groups of answers to one prompt, from being asked to being used.

staleness.py   the bound: which groups may be asked, and which cut may be trained on, so that nothing is ever too old
events.py      what happens to groups
open_group.py  one group: its answers, its rewards, and what a learner takes of it
states.py      the states of all groups, which follow from the events
"""
