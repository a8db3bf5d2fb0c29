"""Describe the rewards and the objective of a run in words, for its model card."""

from train.config import ObjectiveConfig, RewardConfig


def describe_rewards(reward: RewardConfig) -> list[str]:
    """Return a sentence for each reward."""
    if reward.random:
        return ["Reward: random, as a control experiment. Nothing can be learned from it."]
    which = "all tests" if reward.select == "all" else f"the {reward.tests} {reward.select} tests"
    words = {
        "code": f"1 if the program passes {which} of the problem, otherwise 0",
        "math": "1 if the final answer equals the expected one, otherwise 0, for problems with an expected answer",
        "format": "the form of the answer",
        "length_budget": "minus the distance from the length asked for, in thousands of tokens",
        "overlong": f"from 0 to -1 over the last {reward.overlong_buffer_tokens} tokens before the limit",
    }
    weights = {name: getattr(reward, name) for name in words}
    sentences = [f"Reward, weight {weight:g}: {words[name]}." for name, weight in weights.items() if weight]
    if reward.function and reward.function_weight:
        sentences.append(f"Reward, weight {reward.function_weight:g}: the function `{reward.function}`.")
    return sentences


def describe_objective(objective: ObjectiveConfig) -> list[str]:
    """Return a sentence for each term; the formulas are in train/learning/objectives.py."""
    epsilon = f" + {objective.std_epsilon:g}" if objective.std_epsilon else ""
    by_std = (
        f", divided by its standard deviation{epsilon}"
        if objective.by_std
        else ", not divided by its standard deviation"
    )
    wide = ", wider above than below (clip-higher)" if objective.clip_high > objective.clip_low else ""
    sentences = [
        f"Advantage: the reward minus the mean of its group{by_std}."
        if objective.supervision == "outcome"
        else f"Advantage: the rewards of the steps minus their mean in the group{by_std}, added up from the end.",
        f"Ratio to the {objective.old}'s probabilities, clipped to {1 - objective.clip_low:g} and "
        f"{1 + objective.clip_high:g}{wide}.",
        {
            "token_mean": "Every token of the batch counts the same.",
            "sequence_mean": "Every answer counts the same, and within it every token.",
            "constant_length": "Sums over answers, divided by the longest length allowed.",
        }[objective.aggregation],
        {
            "mask": "Answers that were cut off are left out, but count in the mean of their group.",
            "unknown": "Answers that were cut off are left out, of the mean of their group too.",
            "zero_advantage": "Wrong answers that were cut off have advantage 0 and stay in the mean.",
            "none": "Answers that were cut off count as they are.",
        }[objective.overlong],
    ]
    if objective.delta is not None:
        sentences.append(f"Where the advantage is negative, the ratio is bounded by {objective.delta:g}.")
    sentences.append(f"KL to the reference, coefficient {objective.kl:g}." if objective.kl else "No KL term.")
    sentences.append(f"Entropy bonus, coefficient {objective.entropy:g}." if objective.entropy else "No entropy term.")
    if objective.truncation:
        sentences.append(f"Weights for the sampler's mismatch, at most {objective.truncation:g}.")
    if objective.mismatch_high:
        sentences.append(
            "Answers for which the geometric mean of the learner's by the sampler's probabilities leaves "
            f"{objective.mismatch_low:g} to {objective.mismatch_high:g} are left out."
        )
    return sentences
