"""Weights on their way from the learner to the engines, in one of several ways, and the proof that they arrive.

manifest.py           what is handed over: version, files with sizes and digests, tensors with checksums, and fixed
                      tokens with their log-probabilities, by which every engine checks itself
checksums.py          checksums of tensors, which add up over the parts that several GPUs hold
partial_checksums.py  checksums of whole tensors from those parts
proof.py              the proof that an engine holds what the learner sent
source.py             what every way of handing weights over offers: a publisher, and a source for the engines
in_process.py         tensors, to engines in the learner's own process
copies.py             copies of tensors, as many at once as fit into a file
files.py              safetensors files of bounded size, with digests
shared_memory.py      such files in memory, to processes of the same machine
folder.py             such files in a folder, which the machines may share
nccl.py               from GPU to GPU, to engines that the trainer has started
http_source.py        such files over HTTP, from the controller; processes of one machine fetch them once
"""
