#!/bin/sh
# From problems to a better model, with the usual commands:  examples/learn/run.sh [SEED]
#
# Everything is written to runs/learn. Finished steps are skipped, so the same command continues an interrupted run.
# A seed takes about six minutes on two processor cores, without a GPU.
set -eu
cd "$(dirname "$0")/../.."
bin=${BIN:-.venv/bin}
seed=${1:-0}
data=runs/learn/data
here=runs/learn/seed-$seed

# vLLM on processors: in this process, with one thread per core and a GiB of cache.
export VLLM_ENABLE_V1_MULTIPROCESSING=0 VLLM_CPU_OMP_THREADS_BIND=nobind VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1

"$bin/python" examples/learn/problems.py $data/raw
# The held-out set is built first: rows of the training set that are too similar to it are rejected.
"$bin/curate" build-dataset --source generic=$data/raw/held_out.toml --out $data/held_out --mutants 0
"$bin/curate" build-dataset --source generic=$data/raw/train.toml --out $data/train --mutants 4 \
    --against held_out=$data/raw/held_out.jsonl

[ -e "$here/warm/tokenizer.json" ] || "$bin/python" examples/learn/warm_up.py "$here/warm" --seed "$seed"

"$bin/curate" difficulty $data/train --model "$here/warm" --k 8 --temperature 1 --top-p 1 --max-tokens 96 \
    --solve-rate 0.125:0.875 --out "$here/band"

train() { # name of the run, configuration, further settings
    out=$here/$1 config=$2
    shift 2
    [ -e "$out/model/config.json" ] || "$bin/curate" train "examples/learn/$config.toml" --out "$out" --resume \
        --set "model.path=$here/warm" --set "data.dataset=$here/band" --set "run.seed=$seed" "$@"
}
train grpo_plus grpo_plus
if [ "${COMPARE:-}" ]; then # plain GRPO, and rewards that do not depend on the answer
    train grpo grpo
    train random grpo_plus --set reward.random=true
fi

for run in warm grpo_plus/model; do
    [ -e "$here/evaluated/${run%%/*}.json" ] || "$bin/curate" evaluate --model "$here/$run" --data $data/held_out --k 8 --temperature 1 --top-p 1 --max-tokens 96 \
        --out "$here/evaluated/${run%%/*}.json"
done
