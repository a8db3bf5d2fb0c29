"""How nodes, verifiers and the operator reach a coordinator: every request and every reply is signed.

invites.py   the text that lets somebody in
requests.py  what a request says about itself, and its signature
replies.py   the signature of a reply, which belongs to one request
nonces.py    requests that came already
client.py    call a coordinator
joining.py   be admitted with an invite
"""
