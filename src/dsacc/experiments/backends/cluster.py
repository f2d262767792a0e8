"""A Ray cluster to work on: found or started, checked before anything runs there, and left as it was.

Whoever reaches a Ray cluster can run any program on it. So a cluster that is started here listens to this machine alone
and asks for a token that only this process knows. An existing cluster is refused if it answers strangers.
"""

import ipaddress
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import psutil

from dsacc.errors import ConfigError
from dsacc.runs.folder import differences, versions
from dsacc.system.extras import how_to_install
from dsacc.system.processes import cores

OBJECT_STORE = 80_000_000  # bytes; only names and sentences go through it
KNOCK = 60.0  # seconds to see whether a cluster answers without a token
PROBE = 120.0  # seconds for a node to answer; it may have to start a process first
TOKEN_HELP = (
    "start all its nodes with RAY_AUTH_MODE=token and one token in RAY_AUTH_TOKEN or ~/.ray/auth_token "
    "(`ray get-auth-token --generate`)"
)


def import_ray() -> Any:
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise ConfigError(f"--backend ray needs Ray; `{how_to_install('ray')}` installs it") from error
    # Keep Ray from printing pages of a raylet's log on standard output when a node is lost; we say so in a sentence.
    # Ray 2.60 has no public switch for this: `log_to_driver=False` silences workers, but not the thread that prints the
    # errors of a cluster. So this sets the private switch of Ray's own debugger. In a Ray without it, nothing breaks.
    ray._private.worker._worker_logs_enabled = False
    return ray


@contextmanager
def connected(address: str | None, workers: int | None, allow_open: bool) -> Iterator[Any]:
    """Ray, connected to `address`, else to RAY_ADDRESS. With neither, or with `local`, the cluster is our own, and ends
    with us."""
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    with _own(workers) if address == "local" else _existing(address, allow_open) as ray:
        yield ray


@contextmanager
def _own(workers: int | None) -> Iterator[Any]:
    before = dict(os.environ)
    folder = _folder()
    os.environ.update(
        RAY_USAGE_STATS_ENABLED="0",
        RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",  # read when Ray is imported: listen on 127.0.0.1 alone
        RAY_AUTH_MODE="token",
        RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0",  # leave CUDA_VISIBLE_DEVICES as it is, without a warning about it
        RAY_worker_niceness="0",  # as in the local pool; 15 would let every other program go first
    )
    os.environ.pop("RAY_ADDRESS", None)
    if not os.environ.get("RAY_AUTH_TOKEN") and not os.environ.get("RAY_AUTH_TOKEN_PATH"):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    ray = import_ray()
    _reread(ray)
    try:
        ray.init(
            address="local",
            num_cpus=workers or len(cores()),
            include_dashboard=False,
            object_store_memory=OBJECT_STORE,
            log_to_driver=False,
            logging_level="error",
            _temp_dir=folder,
        )
        yield ray
    finally:
        ray.shutdown()
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)


def _folder() -> str:
    """For Ray's logs and sockets, whose paths have at most 107 bytes. Folders of killed processes are removed."""
    temp = Path("/tmp") if os.path.isdir("/tmp") else Path(tempfile.gettempdir())
    for old in temp.glob("dsacc-ray-*-*"):
        with suppress(OSError, ValueError):
            mine = old.lstat().st_uid == os.getuid() and not old.is_symlink()
            if mine and not psutil.pid_exists(int(old.name.split("-")[2])):
                shutil.rmtree(old, ignore_errors=True)
    return tempfile.mkdtemp(prefix=f"dsacc-ray-{os.getpid()}-", dir=temp)


@contextmanager
def _existing(address: str, allow_open: bool) -> Iterator[Any]:
    if "://" in address:
        raise ConfigError(
            f"--address must be HOST:PORT of the cluster's head, or auto, not {address}; run the command on one of the "
            "cluster's nodes"
        )
    ray = import_ray()
    if address != "auto":
        answer = knock(address)
        if answer == "silent":
            raise ConfigError(
                f"no Ray cluster answers at {address}; start one there, or leave --address out to have one started here"
            )
        if answer == "token":
            os.environ["RAY_AUTH_MODE"] = "token"  # Ray then looks for the token itself, also in ~/.ray
            if knock(address, stranger=False) != "open":
                raise ConfigError(
                    f"the Ray cluster {address} asks for a token, and ours is missing or wrong; put the token that it "
                    "was started with into RAY_AUTH_TOKEN or ~/.ray/auth_token"
                )
            _reread(ray)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except Exception as error:  # Ray raises ConnectionError, RuntimeError, ValueError and its own
        said = " ".join(str(error).split())
        raise ConfigError(f"the Ray cluster {address} cannot be used: {said[:300]}") from error
    try:
        gcs = ray.get_runtime_context().gcs_address  # where it listens, whatever --address says
        if not allow_open and not is_loopback(gcs) and knock(gcs) == "open":
            raise ConfigError(
                f"the Ray cluster {gcs} can be used by everybody who reaches it, without a token; {TOKEN_HELP}, or "
                "add --allow-open-cluster if its network is closed to others"
            )
        yield ray
    finally:
        ray.shutdown()


def _reread(ray: Any) -> None:
    """Have Ray notice an authentication mode that was set after Ray was imported."""
    with suppress(AttributeError):
        ray._raylet.Config.initialize("")


def is_loopback(address: str) -> bool:
    """Whether HOST:PORT is an address of this machine alone. Ray then listens there and nowhere else."""
    host = address.rpartition(":")[0].strip("[]")
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def knock(address: str, stranger: bool = True) -> Literal["open", "token", "silent"]:
    """Ask the cluster something: as a stranger without a token, or with our own token."""
    if not listens(address):  # Ray itself would keep trying
        return "silent"
    env = {**os.environ, "RAY_ADDRESS": address}
    if stranger:
        env = {k: v for k, v in env.items() if not k.startswith("RAY_AUTH_")} | {"RAY_AUTH_MODE": "disabled"}
    command = [sys.executable, "-P", "-m", "ray.scripts.scripts", "health-check", "--skip-version-check"]
    try:
        asked = subprocess.run([*command, "--address", address], env=env, capture_output=True, timeout=KNOCK)
    except (OSError, subprocess.TimeoutExpired):
        return "silent"
    if asked.returncode == 0:
        return "open"
    return "token" if b"AuthenticationError" in asked.stderr else "silent"


def listens(address: str, seconds: float = 10.0) -> bool:
    """Whether something takes a connection at HOST:PORT."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=seconds).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


def check_nodes(ray: Any, out: Path) -> None:
    """Every node must see OUT and have the same dsacc and Python. The first that does not is named in a sentence."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    token = secrets.token_hex(8)
    file = out / f"seen-by-all-{token}"
    file.write_text(token)
    try:
        nodes = living(ray)
        ask = ray.remote(num_cpus=0, max_retries=0)(look)
        answers = {
            node: ask.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(str(file))
            for node in nodes
        }
        for node, answer in answers.items():
            try:
                seen, there = ray.get(answer, timeout=PROBE)
            except ray.exceptions.GetTimeoutError as error:
                raise ConfigError(
                    f"node {nodes[node]} of the Ray cluster did not answer within {PROBE:.0f} s; it may be busy, so "
                    "try the same command again, or look at the cluster with `ray status`"
                ) from error
            except Exception as error:
                said = " ".join(str(error).split())[-300:]
                raise ConfigError(f"node {nodes[node]} of the Ray cluster cannot run dsacc: {said}") from error
            _judge(nodes[node], seen == token, there, out)
    finally:
        with suppress(OSError):
            file.unlink()


def look(file: str) -> tuple[str | None, dict[str, str]]:
    """On a node: what is in the file, and the versions that matter for a result."""
    try:
        return Path(file).read_text(), versions()
    except OSError:
        return None, versions()


def _judge(node: str, sees: bool, there: dict[str, str], out: Path) -> None:
    here = versions()
    if not sees:
        raise ConfigError(f"node {node} of the Ray cluster does not see {out}; choose an --out that all nodes share")
    for name in ("python", "dsacc"):
        if there.get(name) != here.get(name):
            raise ConfigError(
                f"node {node} of the Ray cluster has {name} {there.get(name)}, and this machine {here.get(name)}; "
                "install the same version on all"
            )
    if changed := differences(there, here):
        warnings.warn(f"runs on node {node} will not be bit for bit as on this machine: {changed}", stacklevel=2)


def living(ray: Any) -> dict[str, str]:
    """The nodes that are alive: their id, and what messages call them."""
    return {n["NodeID"]: f"{n['NodeManagerHostname']} ({n['NodeManagerAddress']})" for n in ray.nodes() if n["Alive"]}
