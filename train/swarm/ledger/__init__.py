"""What happened between the coordinator and its nodes, in a chain that nobody can change unnoticed.

entries.py   the kinds of entries
accounts.py  what entries add up to: balances, stakes, verdicts by node; a pure fold
ledger.py    the chain in an SQLite file: append, read, audit
"""
