"""How nodes, verifiers and the operator reach a coordinator: every request and every reply is signed.

invites.py   the text that lets somebody in
requests.py  what a request says about itself; its signature, and that of the reply; requests that came already
client.py    call a coordinator, be admitted with an invite; the operator's client
"""
