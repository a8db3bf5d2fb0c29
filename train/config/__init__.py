"""The configuration of a run: one frozen Config, read from a TOML file.

    preset = "deepcoder-16k"         # presets/deepcoder-16k.toml has the values that differ from the defaults
    [model]
    path = "Qwen/Qwen3-0.6B"
    [data]
    dataset = "datasets/taco"

Begin with sections.py, which has all keys with defaults, units and reasons, and read.py, which converts a table to a
Config. presets/ has the values of published recipes.
"""

from train.config.read import as_table, from_table, list_presets, read_config, with_overrides, with_sandbox
from train.config.sections import (
    Config,
    DataConfig,
    EngineConfig,
    EvaluationConfig,
    MixedDataset,
    ModelConfig,
    ObjectiveConfig,
    OptimizerConfig,
    ParallelismConfig,
    ProgramLimitsConfig,
    RewardConfig,
    RolloutConfig,
    RunConfig,
    SandboxConfig,
    StageConfig,
    WorkersConfig,
)

__all__ = [
    "Config", "DataConfig", "EngineConfig", "EvaluationConfig", "MixedDataset", "ModelConfig", "ObjectiveConfig",
    "OptimizerConfig", "ParallelismConfig", "ProgramLimitsConfig", "RewardConfig", "RolloutConfig", "RunConfig",
    "SandboxConfig", "StageConfig", "WorkersConfig", "as_table", "from_table", "list_presets", "read_config",
    "with_overrides", "with_sandbox",
]  # fmt: skip
