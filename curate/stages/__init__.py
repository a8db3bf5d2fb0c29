"""The stages of a build, one file each, and the list that `curate build-dataset` runs.

    verify         execute solutions until one passes every test
    cross_check    run further solutions, to see whether they agree with the tests
    rerun          run each reference a second time with another seed
    deduplicate    keep only the best of several problems with nearly the same text
    decontaminate  remove problems that contain an item of an evaluation set
    strength       measure how many wrong programs the tests reject
    evidence       keep what shows why rows were rejected or suspected

`curate/stage.py` defines the interface of a stage, and `examples/own_stage.py` adds a custom stage.
"""

from collections.abc import Sequence

from curate.decontamination.evaluation_sets import evaluations_of
from curate.options import BuildOptions
from curate.stage import Stage
from curate.stages.cross_check import CrossCheck
from curate.stages.decontaminate import Decontaminate
from curate.stages.deduplicate import Deduplicate
from curate.stages.evidence import GatherEvidence
from curate.stages.rerun import RerunReference
from curate.stages.strength import MeasureStrength
from curate.stages.verify import Verify


def default_stages(options: BuildOptions, against: Sequence[str] = ()) -> list[Stage]:
    """Return the stages of one build, in order. Raises CurateError if an evaluation set cannot be read.

    against: evaluation sets, in the form that `curate decontaminate` takes
    """
    verify = Verify(tries=options.tries, languages=options.reference_languages, seed=options.seed)
    cross_check = CrossCheck(verify, others=options.cross_checks)
    run_again = RerunReference(verify)
    deduplicate = Deduplicate(threshold=options.dedup)
    return [
        verify,
        cross_check,
        run_again,
        deduplicate,
        Decontaminate(evaluations_of(against), deduplicate),
        MeasureStrength(verify, most=options.mutants, min_share=options.min_test_strength, seed=options.seed),
        GatherEvidence(verify, cross_check, run_again),
    ]
