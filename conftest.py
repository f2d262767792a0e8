"""One thread a test process: the tests run side by side, and results must not depend on the machine's core count."""

import torch

torch.set_num_threads(1)
