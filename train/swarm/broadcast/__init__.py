"""Distribution of weights to many machines, as signed manifests, immutable files and deltas between versions.

manifest.py        signed manifests of versions, and the paths of their files
delta.py           binary delta of two files of equal length
origin.py          writes the versions to a folder or an object store, for the trainer
broadcaster.py     publishes each version of a controller to the origin
relay_selector.py  selection of the relay for the next shard
request.py         one request to a relay, bounded in size and time
shard_download.py  concurrent download of the shards of a version to its files
relay_client.py    latest version, manifests and shards of a run, from relays
relay_source.py    a WeightSource of relays, and the versions on a worker's disk
mirror.py          the versions that a relay holds
relay.py           the HTTP server of a relay, and its rate limits
"""
