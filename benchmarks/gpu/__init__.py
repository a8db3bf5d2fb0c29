"""All that runs only on a GPU, checked and measured. Each module is one check, a process with a time limit of its own.

attention.py  packed attention in one kernel against float32, one sequence after another
learner.py    an update in bfloat16 with the fused optimizer against the same on the CPU; tokens per second and memory
ranks.py      a learner on several GPUs against one
sampling.py   tokens per second of vLLM; new weights while answers run; sleep and wake
transfer.py   new weights from GPU to GPU
steps.py      whole training steps, with engine and learner on one GPU, and on two
"""
