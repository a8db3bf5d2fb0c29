"""Like conformance_adapter.py, but in containers of a Docker engine:  check.py tests/docker_conformance_adapter.py"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the driver may run in any environment

from conformance_adapter import grader

grade = grader(backend="docker")
