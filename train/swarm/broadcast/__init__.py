"""Weights for many machines: signed, as files of which any static server can pass on ranges, and as differences where
these are small.

manifest.py        what a version consists of, as bytes that are checked before they are believed
delta.py           the difference of two files of equal length
origin.py          the trainer's side: writes the versions to a folder or an object store
broadcaster.py     hands the versions that a controller names to the origin
relay_selector.py  which relay is asked for the next shard
request.py         one bounded request
shard_download.py  the files of a version, and the shards that several threads fetch to them
relay_client.py    fetch what a run publishes from relays
relay_source.py    weights from relays, as engines take them, and the versions on a worker's disk
mirror.py          the versions that a relay keeps
relay.py           the HTTP server of a relay, and how much each address may ask of it
"""
