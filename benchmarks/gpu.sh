#!/bin/sh
# Check and measure on one GPU, in eight minutes, everything that needs one:  benchmarks/gpu.sh [OPTION...] [CHECK...]
#
# It needs only the extra `train` (pip install --editable '.[train]'): no sandbox, no dataset, no network. Its thresholds
# are for one H100 with 80 GB. It keeps a model of 3.6 GB in runs/gpu, and needs 50 GB of disk there and 60 GB of memory.
# --help shows the options; --cpu runs every check with tiny shapes on the CPU.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-$([ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)}
exec "$python" -m benchmarks.gpu "$@"
