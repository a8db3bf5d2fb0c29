"""Which bars count for a pair of engines."""

from train.swarm.settings import SwarmSettings, Thresholds


def thresholds_for(settings: SwarmSettings, engine: str, verifier: str = "transformers") -> Thresholds:
    """Return the bars of a pair of engines, each as it was named, such as "vllm 0.32.0 cpu".

    A node names its engine itself, so a name that was not calibrated must not get it wider bars than those that were:
    it is judged by the narrowest. Without any bars, the usual ones count.
    """
    pair = f"{_kind(engine)}/{_kind(verifier)}"
    if found := settings.thresholds.get(pair) or settings.thresholds.get(""):
        return found
    return min(
        settings.thresholds.values(),
        key=lambda thresholds: (thresholds.max_margin, thresholds.exponent_mismatches_mean),
        default=Thresholds(),
    )


def _kind(engine: str) -> str:
    return engine.split(maxsplit=1)[0] if engine.strip() else ""
