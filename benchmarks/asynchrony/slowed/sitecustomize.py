"""A module that Python imports at its start. It makes the vLLM engine sleep CURATE_SLEEP_SECONDS after each step."""

import os
import time

if "CURATE_SLEEP_SECONDS" in os.environ:
    from train.sampling.vllm import VllmSampler

    collect = VllmSampler._collect

    def collect_and_sleep(self: VllmSampler) -> None:
        collect(self)
        time.sleep(float(os.environ["CURATE_SLEEP_SECONDS"]))

    VllmSampler._collect = collect_and_sleep  # type: ignore[method-assign]
