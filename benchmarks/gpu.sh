#!/bin/sh
# Check and measure in ten minutes all that runs only on a GPU:  benchmarks/gpu.sh [RESULT.json]
#
# It needs torch and transformers, vLLM for the parts with an engine, and two GPUs for those with several. What cannot
# run here is skipped, with the reason. It downloads nothing: models have the shapes of real ones and random weights.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-$([ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)}
exec "$python" -m benchmarks.gpu "${1:-benchmarks/results/gpu.json}"
