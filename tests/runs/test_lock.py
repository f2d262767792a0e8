"""One process per run folder, with real processes: races, kill -9, other hosts, and whatever lies in `lock`."""

import json
import os
import re
import socket
import time

import psutil
import pytest
from helpers.lock_worker import Worker

from dsacc.errors import RunError
from dsacc.runs import lock as module
from dsacc.runs.lock import RunLock

HOST = socket.gethostname()


@pytest.fixture(scope="module")
def start():
    """Workers to be had one by one; those that are alive are used again."""
    living = []

    def several(count):
        living[:] = [w for w in living if w.process.poll() is None]
        new = [Worker() for _ in range(count - len(living))]
        for worker in new:
            assert worker.process.stdout.readline() == "ready\n"
        living.extend(new)
        return living[:count]

    yield several
    for worker in living:
        worker.end()


def write_lock(folder, **changes):
    content = {"host": "elsewhere", "pid": 123, "pid_started": 1.7e9, "started": "2025-01-01T00:00:00Z"}
    (folder / "lock").write_text(json.dumps(content | {"heartbeat": time.time()} | changes))


def read_lock(folder):
    return json.loads((folder / "lock").read_text())


def test_of_two_processes_exactly_one_wins_each_time(start, tmp_path):
    workers = start(2)
    for _ in range(50):
        when = time.time() + 0.003
        for worker in workers:
            worker.send("acquire", str(tmp_path), when)
        answers = [worker.answer() for worker in workers]
        assert sorted(a[0] for a in answers) == ["ok", "refused"], answers
        winner = workers[[a[0] for a in answers].index("ok")]
        sentence = next(a[1] for a in answers if a[0] == "refused")
        assert re.search(rf"in use by pid {winner.pid} on {HOST} since 20\d\d-.*Z; .*choose another --out", sentence)
        assert winner.ask("release") == ["ok", None]
        assert list(tmp_path.iterdir()) == []


def test_processes_that_come_and_go_never_meet_inside(start, tmp_path):
    workers, now = start(2), time.time()
    for worker in workers:
        worker.send("churn", str(tmp_path), now + 0.01, now + 1.5)
    answers = [worker.answer()[1] for worker in workers]
    assert all(wins > 0 and clashes == 0 for wins, clashes in answers), answers


def test_a_killed_holder_is_followed_at_once(start, tmp_path):
    (worker,) = start(1)
    worker.ask("acquire", str(tmp_path), 0)
    with pytest.raises(RunError, match=f"in use by pid {worker.pid} on {HOST}"):
        RunLock.acquire(tmp_path)
    worker.process.kill()
    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)  # dead, and left a zombie: nobody else need have noticed
    with RunLock.acquire(tmp_path) as lock:
        assert lock.taken_over == f"took over the lock of pid {worker.pid} on {HOST}, which is gone"
    worker.end()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_of_a_killed_holder_does_not_keep_the_lock(start, tmp_path):
    (worker,) = start(1)
    child = worker.ask("orphan", str(tmp_path))[1]
    with pytest.raises(RunError, match="in use"):
        RunLock.acquire(tmp_path)
    worker.end()
    try:
        assert psutil.pid_exists(child)
        RunLock.acquire(tmp_path).release()
    finally:
        os.kill(child, 9)


def test_a_released_folder_is_free_for_another_process(start, tmp_path):
    (worker,) = start(1)
    lock = RunLock.acquire(tmp_path)
    assert worker.ask("acquire", str(tmp_path), 0)[0] == "refused"
    lock.release()
    assert not (tmp_path / "lock").exists()
    assert worker.ask("acquire", str(tmp_path), 0) == ["ok", None]
    lock.release()
    assert read_lock(tmp_path)["pid"] == worker.pid
    worker.ask("release")


def test_a_lock_removed_between_open_and_flock_is_not_taken_for_the_folders(start, tmp_path, monkeypatch):
    (worker,), first, flock = start(1), RunLock.acquire(tmp_path), module._flock

    def released_just_before(fd):
        first.release()
        return flock(fd)

    monkeypatch.setattr(module, "_flock", released_just_before)
    with RunLock.acquire(tmp_path):
        assert worker.ask("acquire", str(tmp_path), 0)[0] == "refused"


def test_the_file_is_removed_while_it_is_still_locked(tmp_path, monkeypatch):
    fcntl, unlink, seen = pytest.importorskip("fcntl"), module.Path.unlink, []

    def look_and_unlink(path):
        with open(path) as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        seen.append(path)
        unlink(path)

    lock = RunLock.acquire(tmp_path)
    monkeypatch.setattr(module.Path, "unlink", look_and_unlink)
    lock.release()
    assert seen == [tmp_path / "lock"]
    assert list(tmp_path.iterdir()) == []


def test_the_file_says_who_holds_it(tmp_path):
    with RunLock.acquire(tmp_path / "new" / "run") as lock:
        content = read_lock(tmp_path / "new" / "run")
        assert (content["host"], content["pid"]) == (HOST, os.getpid())
        assert content["pid_started"] == psutil.Process().create_time()
        assert abs(content["heartbeat"] - time.time()) < 5
        assert (lock.taken_over, lock.lost) == (None, None)


def test_the_same_process_cannot_hold_it_twice(tmp_path):
    with RunLock.acquire(tmp_path):
        with pytest.raises(RunError, match=f"pid {os.getpid()}"):
            RunLock.acquire(tmp_path)
        assert (tmp_path / "lock").exists()


def test_a_fresh_lock_of_another_host_is_refused_and_left_as_it_is(tmp_path):
    write_lock(tmp_path, heartbeat=time.time() - 500)
    before = (tmp_path / "lock").read_bytes()
    with pytest.raises(RunError, match=r"in use by pid 123 on elsewhere since 2025-01-01T00:00:00Z; .* delete .*lock"):
        RunLock.acquire(tmp_path)
    assert (tmp_path / "lock").read_bytes() == before


def test_a_silent_lock_of_another_host_is_taken_over(tmp_path):
    write_lock(tmp_path, heartbeat=time.time() - 14 * 60)
    with RunLock.acquire(tmp_path) as lock:
        assert lock.taken_over == "took over the lock of pid 123 on elsewhere, silent for 14 minutes"
        assert read_lock(tmp_path)["pid"] == os.getpid()


@pytest.mark.parametrize("flock", [True, False])
def test_a_reused_pid_is_not_the_holder(flock, tmp_path, monkeypatch):
    if not flock:
        monkeypatch.setattr(module, "fcntl", None)
    write_lock(tmp_path, host=HOST, pid=os.getppid(), pid_started=psutil.Process(os.getppid()).create_time() - 60)
    with RunLock.acquire(tmp_path) as lock:
        assert lock.taken_over == f"took over the lock of pid {os.getppid()} on {HOST}, which is gone"


def test_without_flock_the_living_holder_decides(start, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "fcntl", None)
    (worker,) = start(1)
    worker.ask("acquire", str(tmp_path), 0)
    with pytest.raises(RunError, match=f"in use by pid {worker.pid} on {HOST}"):
        RunLock.acquire(tmp_path)
    worker.end()
    with RunLock.acquire(tmp_path) as lock:
        assert f"pid {worker.pid} on {HOST}, which is gone" in lock.taken_over
    assert not (tmp_path / "lock").exists()


def hostile(**changes):
    good = {"host": "elsewhere", "pid": 1, "pid_started": 1.0, "started": "2025-01-01", "heartbeat": time.time()}
    return json.dumps(good | changes).encode()


GARBAGE = {
    "zeros": b"\x00" * 100,
    "list": b"[]",
    "half": b'{"pid": "x"}',
    "number": b"7",
    "junk": b"junk" * 250_000,
    "no utf-8": b"\xff\xfe\x80" * 50,
    "deep": b"[" * 4000,
    "escape": hostile(host="\x1b[2Jyou"),
    "surrogate": hostile(host="\ud800"),
    "text pid": hostile(pid="1"),
    "huge pid": hostile(pid=10**1000),
    "negative pid": hostile(host=HOST, pid=-1),
    "nan": hostile(heartbeat=float("nan")),
    "endless": hostile(heartbeat=1e300),
    "huge": hostile(heartbeat=10**1000),
    "list host": hostile(host=["x"]),
    "no time": hostile(started="yesterday"),
    "extra": hostile(more=1),
}


@pytest.mark.parametrize("content", [b"", *GARBAGE.values()], ids=["empty", *GARBAGE])
def test_a_damaged_lock_is_nobodys(content, tmp_path):
    (tmp_path / "lock").write_bytes(content)
    with RunLock.acquire(tmp_path) as lock:
        assert (lock.taken_over is None) == (content == b"")
        assert read_lock(tmp_path)["pid"] == os.getpid()
    assert not (tmp_path / "lock").exists()


@pytest.mark.parametrize("content", [b"", b"[]", GARBAGE["junk"]], ids=["empty", "list", "junk"])
def test_a_held_lock_that_was_damaged_is_still_held(content, tmp_path):
    with RunLock.acquire(tmp_path):
        (tmp_path / "lock").write_bytes(content)
        with pytest.raises(RunError, match="in use by another process"):
            RunLock.acquire(tmp_path)


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_is_refused_and_its_target_untouched(link, tmp_path):
    target, run = tmp_path / "precious", tmp_path / "run"
    target.write_text("precious")
    run.mkdir()
    link(target, run / "lock")
    with pytest.raises(RunError, match=r"lock is a (hard )?link.*delete it"):
        RunLock.acquire(run)
    assert target.read_text() == "precious"
    target.unlink()
    if link is os.symlink:
        with pytest.raises(RunError, match="is a link"):
            RunLock.acquire(run)
        assert not target.exists()


def test_a_link_that_appears_after_the_look_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(module.Path, "is_symlink", lambda _: False)
    (tmp_path / "lock").symlink_to(tmp_path / "target")
    with pytest.raises(RunError, match="cannot be locked"):
        RunLock.acquire(tmp_path)
    assert not (tmp_path / "target").exists()


def test_folders_pipes_and_files_in_the_way_are_refused(tmp_path):
    (tmp_path / "a" / "lock").mkdir(parents=True)
    with pytest.raises(RunError, match="is a link or a folder"):
        RunLock.acquire(tmp_path / "a")
    (tmp_path / "b").write_text("precious")
    with pytest.raises(RunError, match="cannot be locked"):
        RunLock.acquire(tmp_path / "b")
    (tmp_path / "c").mkdir()
    os.mkfifo(tmp_path / "c" / "lock")
    with pytest.raises(RunError, match="cannot be locked"):
        RunLock.acquire(tmp_path / "c")


def test_a_disk_that_takes_nothing_gives_a_sentence(tmp_path):
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, limits[1]))
    try:
        with pytest.raises(RunError, match=r"cannot be locked .*; make it writable or choose another --out"):
            RunLock.acquire(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    RunLock.acquire(tmp_path).release()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_gives_a_sentence(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(RunError, match="cannot be locked"):
        RunLock.acquire(tmp_path)


def test_beat_refreshes_only_when_it_is_time(tmp_path, monkeypatch):
    with RunLock.acquire(tmp_path) as lock:
        before = read_lock(tmp_path)
        time.sleep(0.15)
        lock.beat()
        assert read_lock(tmp_path) == before
        monkeypatch.setattr(module, "HEARTBEAT", 0.1)
        lock.beat()
        after = read_lock(tmp_path)
        assert after["heartbeat"] > before["heartbeat"]
        assert after | {"heartbeat": 0} == before | {"heartbeat": 0}
        assert lock.lost is None


def test_beat_never_raises(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "HEARTBEAT", -1)
    folder = tmp_path / "run"
    lock = RunLock.acquire(folder)
    (folder / "lock").unlink()
    lock.beat()
    folder.rmdir()
    lock.beat()
    folder.write_text("a file now")
    lock.beat()
    os.close(lock._fd)
    lock.beat()
    lock.release()
    lock.beat()
    assert lock.lost is None


def test_a_lock_that_another_took_over_is_neither_beaten_nor_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "HEARTBEAT", -1)
    for remove_first in (False, True):
        lock = RunLock.acquire(tmp_path)
        if remove_first:
            (tmp_path / "lock").unlink()
        write_lock(tmp_path)
        before = (tmp_path / "lock").read_bytes()
        lock.beat()
        assert "another process took over" in lock.lost
        lock.release()
        assert (tmp_path / "lock").read_bytes() == before
        (tmp_path / "lock").unlink()


def test_release_gives_back_its_file_descriptor_and_so_does_a_refusal(tmp_path):
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc") else psutil.Process().num_fds()
    for _ in range(3):
        with RunLock.acquire(tmp_path) as lock:
            assert not os.get_inheritable(lock._fd)
            with pytest.raises(RunError):
                RunLock.acquire(tmp_path)
        lock.release()
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc") else psutil.Process().num_fds()
    assert after == before
