#!/bin/sh
# What each ingredient of GRPO+ is for, on answers that are long enough:  examples/learn/ablations.sh
#
# The same problems, answered by a model that thinks aloud (aloud.py): one run with all ingredients, one without each;
# two to three minutes a run on two processor cores. The datasets are those of run.sh, which goes first. Everything lands
# in runs/learn/aloud; what is finished is not done again.
set -eu
cd "$(dirname "$0")/../.."
bin=${BIN:-.venv/bin}
here=runs/learn/aloud
export VLLM_ENABLE_V1_MULTIPROCESSING=0 VLLM_CPU_OMP_THREADS_BIND=nobind VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1

[ -e $here/warm/tokenizer.json ] || "$bin/python" examples/learn/warm_up.py $here/warm --aloud --steps 900

train() { # name of the run, settings
    out=$here/$1
    shift
    [ -e "$out/model/config.json" ] || "$bin/curate" train examples/learn/aloud.toml --out "$out" --resume "$@"
}
train grpo_plus
train one_bound --set objective.clip_high=0.2
train overlong_counts --set objective.overlong=none
train sequence_mean --set objective.aggregation=sequence_mean
"$bin/curate" plot $here/grpo_plus $here/one_bound $here/overlong_counts $here/sequence_mean --out docs/ablations.svg
