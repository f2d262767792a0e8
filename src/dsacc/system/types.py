"""Types that several rooms use."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
