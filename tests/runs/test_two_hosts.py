"""The lock of a run folder between hosts: each has its own name and its own processes, and they share the folder.

The hosts are namespaces of this machine's kernel (`unshare`). They share its flock, as hosts on one network disk do.
"""

import os
import re
import shutil
import subprocess
import time

import pytest
from helpers.lock_worker import Worker

UNSHARE = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--uts", "--pid", "--mount-proc"]


def on(host: str) -> list[str]:
    """A command that starts another as process 1 of a host of this name, which ends with it."""
    return [*UNSHARE, "--fork", "--kill-child", "sh", "-c", 'hostname "$0" && exec "$@"', host]


def permitted() -> bool:
    return bool(shutil.which("unshare")) and subprocess.run([*on("a"), "true"], capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not permitted(), reason="unshare is missing, or may not make namespaces here")


@pytest.fixture(scope="module")
def hosts():
    """Three hosts, two of one name. STALE is 1.5 seconds there in place of ten minutes."""
    workers = [Worker(on(name)) for name in ("north", "south", "north")]
    for worker in workers:
        assert worker.process.stdout.readline() == "ready\n"
        worker.ask("paced", 0.2, 1.5)
    yield workers
    for worker in workers:
        worker.end()


def test_a_host_that_lives_is_named_and_keeps_its_folder_however_long_it_takes(hosts, tmp_path):
    north, south, _ = hosts
    answer, (pid, taken_over) = north.ask("child", str(tmp_path))
    assert (answer, taken_over) == ("ok", None)
    until = time.time() + 2.0  # longer than a silence that would count
    while time.time() < until:
        answer, sentence = south.ask("acquire", str(tmp_path), 0)
        assert answer == "refused"
        time.sleep(0.1)
    assert re.fullmatch(
        rf"{tmp_path} is in use by pid {pid} on north since 20\S+Z; wait for it, stop it, or choose another --out, or "
        rf"delete {tmp_path}/lock if it has certainly ended",
        sentence,
    )
    north.ask("kill_child")


def test_a_host_that_is_gone_is_followed_once_it_has_been_silent_for_long_enough(hosts, tmp_path):
    north, south, _ = hosts
    pid = north.ask("child", str(tmp_path))[1][0]
    north.ask("kill_child")
    answer, sentence = south.ask("acquire", str(tmp_path), 0)
    assert answer == "refused"
    assert f"in use by pid {pid} on north" in sentence
    time.sleep(1.6)
    assert south.ask("acquire", str(tmp_path), 0) == [
        "ok",
        f"took over the lock of pid {pid} on north, silent for 0 minutes",
    ]
    south.ask("release")


def test_a_lock_that_its_user_deletes_is_free_at_once(hosts, tmp_path):
    north, south, _ = hosts
    north.ask("child", str(tmp_path))
    north.ask("kill_child")
    (tmp_path / "lock").unlink()
    assert south.ask("acquire", str(tmp_path), 0) == ["ok", None]
    south.ask("release")


def test_of_two_containers_with_one_name_the_second_waits_for_the_first_and_follows_it_at_once(hosts, tmp_path):
    north, _, twin = hosts  # both are pid 1 of their host, and were started in the same second
    assert north.ask("acquire", str(tmp_path), 0) == ["ok", None]
    answer, sentence = twin.ask("acquire", str(tmp_path), 0)
    assert answer == "refused"
    assert "in use by pid 1 on north" in sentence
    north.end()
    until = time.time() + 10  # the kernel needs a moment to end the host
    while (said := twin.ask("acquire", str(tmp_path), 0))[0] == "refused" and time.time() < until:
        time.sleep(0.05)
    assert said == ["ok", "took over the lock of pid 1 on north, which is gone"]
