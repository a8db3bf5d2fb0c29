"""Reward models for tests: classifiers with the weights of the tiny model, and a head of their own."""

from pathlib import Path


def folder(path: Path, base: Path, kind: str = "Sequence", *, outputs: int = 1, head: float = 1.0) -> str:
    """Save a classifier with a random head, and the tokenizer of its base, and return its folder.

    kind  "Sequence" or "Token"
    head  standard deviation of the head's weights
    """
    import torch
    import transformers

    torch.manual_seed(0)
    model = getattr(transformers, f"AutoModelFor{kind}Classification").from_pretrained(base, num_labels=outputs)
    with torch.no_grad():
        model.score.weight.normal_(std=head)
    model.save_pretrained(path)
    transformers.AutoTokenizer.from_pretrained(base).save_pretrained(path)
    return str(path)
