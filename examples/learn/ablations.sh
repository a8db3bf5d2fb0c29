#!/bin/sh
# What each ingredient of GRPO+ contributes:  examples/learn/ablations.sh [SEED...]
#
# The problems take thinking aloud (aloud.py), most of them for longer than the length limit of training; evaluation
# allows three times that length. There is one run with all ingredients, one without each of them, and one in which the
# rewards of truncated answers are unknown. A run takes a minute and a half on two processor cores, without a GPU.
# Everything is written to runs/learn/aloud; finished steps are skipped.
set -eu
cd "$(dirname "$0")/../.."
bin=${BIN:-.venv/bin}
here=runs/learn/aloud
export VLLM_ENABLE_V1_MULTIPROCESSING=0 VLLM_CPU_OMP_THREADS_BIND=nobind VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1

"$bin/python" examples/learn/aloud.py $here/data/raw
# All statements are similar, so only identical ones count as duplicates.
for set in train held_out; do
    "$bin/curate" build-dataset --source generic=$here/data/raw/$set.toml --out $here/data/$set --mutants 0 --dedup 1
done
[ -e $here/warm/tokenizer.json ] || "$bin/python" examples/learn/warm_up.py $here/warm --aloud --steps 800

train() { # name of the run, settings
    out=$here/seed-$seed/$1
    shift
    [ -e "$out/model/config.json" ] ||
        "$bin/curate" train examples/learn/aloud.toml --out "$out" --resume --set "run.seed=$seed" "$@"
}
in_words() { # name of a run: what docs/concepts/grpo-plus.md calls it
    case $1 in
    grpo_plus) echo "GRPO+: cut-off answers left out of the loss" ;;
    overlong_counts) echo "cut-off answers count like all others" ;;
    overlong_unknown) echo "cut-off answers left out of both" ;;
    one_bound) echo "the same bound on both sides" ;;
    sequence_mean) echo "a mean over sequences" ;;
    esac
}
seeds=${*:-0 1}
set --
for seed in $seeds; do
    train grpo_plus
    train overlong_counts --set objective.overlong=none
    train overlong_unknown --set objective.overlong=unknown
    train one_bound --set objective.clip_high=0.2
    train sequence_mean --set objective.aggregation=sequence_mean
    for run in grpo_plus overlong_counts overlong_unknown one_bound sequence_mean; do
        set -- "$@" "$(in_words $run)=$here/seed-$seed/$run"
    done
done
"$bin/curate" plot "$@" --out docs/ablations.svg
