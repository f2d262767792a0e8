"""A Ray cluster of two nodes on one machine, and a small experiment on it.

    pip install ray      (or `make setup`, which brings it)
    python examples/ray_two_nodes.py

On real machines only the first part changes: there, `ray start` begins a node on each (docs/clusters.md).
"""

import os
import secrets
import tempfile
from pathlib import Path

# Before Ray is imported: only who knows the token may use the cluster, and it listens to this machine alone.
os.environ.update(
    RAY_AUTH_MODE="token",
    RAY_AUTH_TOKEN=secrets.token_hex(32),
    RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",
    RAY_USAGE_STATS_ENABLED="0",
)

from dsacc.experiments.backends.ray import OnRay
from dsacc.experiments.driver import run_experiment
from dsacc.experiments.grids import load_plan

GRID = """
envs = ["CartPole-v1"]
agents = ["dsac", "dsac-m"]
steps = 300

[settings]
random_steps = 100
hidden = 32
checkpoint_every = 100

[tests]
episodes = 3
"""


def main() -> None:
    # A short path: Ray keeps sockets below it, whose paths have at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="dsacc-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        (Path(folder) / "ray").mkdir()
        os.environ["RAY_TMPDIR"] = folder
        from ray.cluster_utils import Cluster

        node = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=node)
        cluster.add_node(**node)
        try:
            grid = Path(folder) / "grid.toml"
            grid.write_text(GRID)
            run_experiment(load_plan(grid), Path(folder) / "out", OnRay(address=cluster.address), print)
        finally:
            cluster.shutdown()


if __name__ == "__main__":
    main()
