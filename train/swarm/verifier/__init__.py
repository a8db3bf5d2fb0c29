"""The process of `curate verifier`: takes files from a coordinator, and says what they are worth.

A verifier is trusted: what it computes is trained on. It runs nothing that a file holds: tokens are never decoded, and
programs that answers contain are judged later, by the trainer's sandbox.

version_prefetch.py  the versions of the weights that verifiers need: fetched before they are asked for
file_verifier.py     the checks of a file, in their order; a check that fails says nothing about the file
verifier_process.py  the process: joins, takes files, sends verdicts, until it is told to leave
"""
