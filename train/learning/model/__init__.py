"""The model that is trained: packed rows in, log-probabilities out.

attention.py      attention of each token of a row to its own prompt and answer
logprob.py        log-probabilities of tokens without holding all logits
policy.py         a causal language model of transformers as the learner needs it
sharded_model.py  the same, of which each rank holds only its parts
model_files.py    its weights as safetensors files
adapter.py        its LoRA layers alone
"""
