#!/bin/sh
# Check and measure on one GPU, in eight minutes, all that runs only there:  benchmarks/gpu.sh [OPTION...] [CHECK...]
#
# It needs the extra `train` (pip install --editable '.[train]') and none of the others: no sandbox, no dataset, no
# network. Its bars are those of one H100 with 80 GB. It keeps a model of 3.6 GB in runs/gpu, and needs 50 GB there while
# it runs, and 60 GB of memory. --help shows the options; --cpu tries everything with tiny shapes on the processor.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-$([ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)}
exec "$python" -m benchmarks.gpu "$@"
