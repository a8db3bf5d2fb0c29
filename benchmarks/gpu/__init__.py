"""A smoke test of training on one GPU. Each of these modules is a check, a process with a time limit of its own.

machine.py   GPU, driver, versions, free memory, runner of vLLM; makes the model of all checks
kernels.py   packed attention, exact logits, the fused optimizer and an update, compared with the CPU
learner.py   speed and memory of an update at 20K tokens, compared with the plan; seconds of a snapshot
lora.py      the same for LoRA layers
engine.py    vLLM beside the learner: start, cache, speed, parity; sleep, update and wake; updates while it samples; new
             weights in the midst of answers
run.py       `curate train`, killed and resumed
ranks.py     a learner on two GPUs against one
transfer.py  new weights from GPU to GPU

Their figures and bars are in bars.py, what they share in setup.py. __main__.py runs them one after another.
"""
