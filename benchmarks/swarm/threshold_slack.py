"""What the bars leave to a cheat: the tokens at which it may choose.

    python -m benchmarks.swarm.threshold_slack     # a minute on one core

Where the second best noisy score is within the margin of the bars, a cheat may take the second best token, as an engine
that rounds differently would. From there it has to draw on under the seeds, so each such near tie opens one other
answer. For a margin m and a distribution p, their share of the tokens is nearly

    m * (1 - sum of p^2)

It is measured on answers of a random model, beside that formula, for several margins. results/verification.json has
the bars that are calibrated for vLLM and transformers; for these it is computed how many tokens of an answer, and of
the 16 answers of a group, may be others than the seeds give. It writes results/slack.json.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import describe
from benchmarks.swarm.verification import TEMPERATURE, leases, model
from train.swarm.verification.threshold_checks import max_mismatches

HERE = Path(__file__).parents[1] / "results"
MARGINS = (0.02, 0.05, 0.1, 0.2, 0.5)
LENGTHS = (500, 4000, 16_000)
ANSWERS = 16


def near_ties(path: Path) -> tuple[np.ndarray, float]:
    """Return how far the second best score is behind the best one at each token, and the mean of 1 - sum of p^2."""
    import torch

    from train.sampling.seeded_sampling import sample_tokens
    from train.sampling.transformers import TransformersSampler
    from train.swarm.verification.calibrate import sample_completions
    from train.swarm.verification.verifier_model import VerifierModel

    engine, prefill = TransformersSampler(str(path)), VerifierModel(path)
    asked = leases(2)
    gaps, spread = [], []
    for lease, answers in zip(asked, sample_completions(engine, asked, lambda n_finished: None), strict=True):
        for seed, answer in zip(lease.seeds, answers, strict=True):
            ids, first = torch.tensor([[*lease.prompt, *answer.token_ids]]), len(lease.prompt) - 1
            with torch.inference_mode():
                hidden_LH = prefill._model.get_decoder()(input_ids=ids).last_hidden_state[0]
                logits_TV = prefill._logits(hidden_LH[first : first + answer.n_tokens])
                _, _, noisy_TV = sample_tokens(logits_TV, TEMPERATURE, [seed] * answer.n_tokens, range(answer.n_tokens))
                best_T2 = noisy_TV.topk(2, 1).values
                gaps += (best_T2[:, 0] - best_T2[:, 1]).tolist()
                spread += (1 - (logits_TV / TEMPERATURE).softmax(1).square().sum(1)).tolist()
    return np.array(gaps), float(np.mean(spread))


def allowed(bars: dict[str, float]) -> dict[str, Any]:
    """Return how many tokens may miss in an answer, and in a group of answers, by the length of an answer."""
    share, sigmas = bars["replayed_share"], bars["replayed_sigmas"]
    return {
        str(length): {
            "answer": max(max_mismatches(length, share, sigmas), 1),
            "group": max(max_mismatches(ANSWERS * length, share, sigmas), 1),
        }
        for length in LENGTHS
    }


def main() -> None:
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        gaps, spread = near_ties(model(Path(folder)))
    pairs = json.loads((HERE / "verification.json").read_text())["pairs"]
    found = {
        "machine": describe(),
        "tokens": len(gaps),
        "spread": round(spread, 4),
        "near_ties": {
            str(m): {"measured": round(float((gaps < m).mean()), 4), "formula": round(m * spread, 4)} for m in MARGINS
        },
        "answers_in_a_group": ANSWERS,
        "pairs": {name: {"margin": pair["bars"]["margin"], **allowed(pair["bars"])} for name, pair in pairs.items()},
    }
    (HERE / "slack.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
