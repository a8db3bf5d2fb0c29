"""Prompts in, completions out.

protocol.py          what a sampler is, and the types it takes and gives
vllm.py              a model in this process, run by vLLM; vllm_worker.py runs in vLLM's own processes, and
                     vllm_weights.py tells there which weights they hold
chat_template.py the tokens of a prompt; answer_text.py: the text of an answer
transformers.py      a model in this process, slow and simple, for tests
engine_processes.py  vLLM engines in processes of their own, on other GPUs than the trainer's; engine_environment.py
                     prepares such a process
http.py              a model behind an OpenAI-compatible address
open_sampler.py      opens the sampler of a command; chat_template_check.py: whether a model on this machine can chat
open_engine.py       opens the sampler of a training run
verifiable/          answers that others can check: noise that anybody can repeat, and commitments to hidden states
"""
