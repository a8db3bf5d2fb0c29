"""A hook that Python imports at its start: the vLLM engine then sleeps CURATE_SLEEP_SECONDS after each step."""

import os
import sys
import time
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_SAMPLER = "train.sampling.vllm"


class _SlowingLoader(Loader):
    def __init__(self, loader: Loader, seconds: float) -> None:
        self._loader, self._seconds = loader, seconds

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        sampler, seconds = module.VllmSampler, self._seconds
        collect = sampler._collect

        def collect_and_sleep(self: object) -> None:
            collect(self)
            time.sleep(seconds)

        sampler._collect = collect_and_sleep


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != _SAMPLER:
            return None
        spec = PathFinder.find_spec(name, path)  # type: ignore[arg-type]
        if spec is not None and spec.loader is not None:
            spec.loader = _SlowingLoader(spec.loader, float(os.environ["CURATE_SLEEP_SECONDS"]))
        return spec


if "CURATE_SLEEP_SECONDS" in os.environ:
    sys.meta_path.insert(0, _Finder())
