"""The standard variables of the clouds: the only part of the environment that a storage reads.

The libraries of the clouds read them as well.
"""

from __future__ import annotations

import os
from collections.abc import Mapping


def cloud_variables() -> Mapping[str, str]:
    return os.environ
