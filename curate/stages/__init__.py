"""The stages of a build, one file each, and the list that `curate build-dataset` runs.

    verify         execute solutions until one passes every test
    verify_answers check that math-verify can parse expected answers
    cross_check    execute further solutions, to check their agreement with the tests
    rerun          execute each reference again with another seed
    deduplicate    keep only the best of several problems with nearly the same text
    decontaminate  remove problems that contain an item of an evaluation set
    strength       measure the share of wrong programs that the tests reject
    evidence       store outputs that explain rejections and suspicions

`curate/stage.py` defines the interface of a stage, and `examples/own_stage.py` adds a custom stage.
"""

from collections.abc import Sequence

from curate.decontamination.evaluation_set import read_evaluations
from curate.options import BuildOptions
from curate.stage import Stage
from curate.stages.cross_check import CrossCheckStage
from curate.stages.decontaminate import DecontaminationStage
from curate.stages.deduplicate import DeduplicationStage
from curate.stages.evidence import EvidenceStage
from curate.stages.rerun import RerunStage
from curate.stages.strength import StrengthStage
from curate.stages.verify import VerificationStage
from curate.stages.verify_answers import AnswerStage


def default_stages(options: BuildOptions, against: Sequence[str] = ()) -> list[Stage]:
    """Return the stages of one build, in order. Raises CurateError for an invalid or unreadable evaluation set.

    against: evaluation sets, in the form of `--against`
    """
    verify = VerificationStage(tries=options.tries, languages=options.reference_languages, seed=options.seed)
    deduplicate = DeduplicationStage(threshold=options.dedup)
    return [
        verify,
        AnswerStage(seed=options.seed),
        CrossCheckStage(verify, others=options.cross_checks),
        RerunStage(verify),
        deduplicate,
        DecontaminationStage(read_evaluations(against), deduplicate),
        StrengthStage(max_count=options.mutants, min_share=options.min_test_strength, seed=options.seed),
        EvidenceStage(verify),
    ]
