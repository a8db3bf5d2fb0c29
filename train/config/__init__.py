"""The configuration of a run: a TOML file becomes one frozen Config, or an error that names the wrong key.

    preset = "deepcoder-16k"         # presets/deepcoder-16k.toml has what differs from the defaults
    [model]
    path = "Qwen/Qwen3-0.6B"
    [data]
    dataset = "datasets/taco"

Values in the file replace those of its preset, and options of the command replace both: --model, --data, and
`--set section.key=value`.

Begin with sections.py, which has all keys with their defaults, units and reasons, and read.py, which converts a table
to a Config. presets/ has the values of published recipes.
"""

from train.config.read import as_table, from_table, presets, read_config, with_overrides, with_sandbox
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
    "SandboxConfig", "StageConfig", "WorkersConfig", "as_table", "from_table", "presets", "read_config",
    "with_overrides", "with_sandbox",
]  # fmt: skip
