"""Prompts in, completions out.

Begin with protocol.py, the samplers and engines and their types, and open_engine.py, which opens them. A model is in
this process (vllm.py; transformers.py for tests), in processes on other GPUs (engine_processes.py), or behind an
OpenAI-compatible address (http.py). vllm_worker.py and vllm_weights.py run within vLLM's own processes. text.py turns
prompts into tokens and tokens into answers. proof.py compares an engine with the weights that the learner sent. Answers
that others can check: seeded_sampling.py and commitment.py.
"""
