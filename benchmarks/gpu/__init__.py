"""A smoke test of training on one GPU. Each of these modules is a check, a process with its own time limit.

machine.py   GPU, driver, versions, free memory, runner of vLLM; makes the model of all checks
kernels.py   packed attention, exact logits, the fused optimizer and an update, compared with the CPU
learner.py   speed and memory of an update at 20K tokens, compared with the plan; seconds of a snapshot
lora.py      the same for LoRA layers
engine.py    vLLM on the learner's GPU: start, cache, speed, parity; sleep, update and wake; updates while it samples;
             new weights in the middle of completions
run.py       `curate train`, killed and resumed
ranks.py     a learner on two GPUs against one
transfer.py  new weights from GPU to GPU

__main__.py runs the checks, thresholds.py has their figures and thresholds, setup.py their shared code.
"""
