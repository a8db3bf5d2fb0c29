# expect: runtime_error
import os
import resource

try:
    resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))
except (OSError, ValueError):
    pass
os.abort()
