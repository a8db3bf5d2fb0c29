#!/bin/sh
# One worker for each GPU of this machine:  CURATE_TOKEN=... ./two_workers.sh http://trainer:8700
# GPUS="0 1" says which GPUs; a worker that fails is started again.
set -eu
trap 'kill 0' INT TERM
for gpu in ${GPUS:-0 1}; do
    (
        until CUDA_VISIBLE_DEVICES=$gpu curate rollout --controller "$1"; do
            echo "the worker on GPU $gpu has failed; it is started again in 10 s" >&2
            sleep 10
        done
    ) &
done
wait
