"""Samplers: prompts in, completions out.

Begin with protocol.py, the interfaces of samplers and engines, and open_engine.py, which creates them. A model runs in
this process (vllm.py; transformers.py for tests), in processes on other GPUs (engine_processes.py), or behind an
OpenAI-compatible server (http.py). vllm_worker.py and vllm_weights.py run in vLLM's own processes. text.py converts
between text and tokens. proof.py compares an engine's weights with the learner's. seeded_sampling.py and commitment.py
make completions verifiable.
"""
