"""Other processes that take the lock of a run folder."""

import json
import subprocess
import sys
from collections.abc import Sequence

WORKER = """
import json, os, sys, time
from pathlib import Path
from dsacc.errors import RunError
from dsacc.runs import lock as module
from dsacc.runs.lock import RunLock

def acquire(folder, when):
    global lock
    while time.time() < when:
        pass
    lock = RunLock.acquire(Path(folder))
    return lock.taken_over

def release():
    lock.release()

def paced(heartbeat, stale):  # seconds
    module.HEARTBEAT, module.STALE = heartbeat, stale

def churn(folder, when, until):
    wins = clashes = 0
    while time.time() < when:
        pass
    while time.time() < until:
        try:
            with RunLock.acquire(Path(folder)):
                wins += 1
                try:
                    os.close(os.open(folder + "/inside", os.O_CREAT | os.O_EXCL))
                    os.unlink(folder + "/inside")
                except FileExistsError:
                    clashes += 1
        except RunError as error:
            assert "is in use by" in str(error), error
    return wins, clashes

def child(folder):  # a child that takes the lock, beats, and lives until it is killed
    global held
    ready, told = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            lock = RunLock.acquire(Path(folder))
            os.write(told, json.dumps([lock.taken_over]).encode())
        except RunError as error:
            os.write(told, json.dumps(str(error)).encode())
            os._exit(0)
        while True:
            lock.beat()
            time.sleep(0.02)
    held, said = pid, json.loads(os.read(ready, 4096))
    if isinstance(said, str):
        os.waitpid(pid, 0)
        raise RunError(said)
    return [pid, *said]

def kill_child():
    os.kill(held, 9)
    os.waitpid(held, 0)

def orphan(folder):  # a forked child that outlives us, and says when it is there
    global lock
    lock = RunLock.acquire(Path(folder))
    ready, told = os.pipe()
    if (child := os.fork()) == 0:
        os.write(told, b"x")
        time.sleep(60)
        os._exit(0)
    os.read(ready, 1)
    return child

print("ready", flush=True)
for line in sys.stdin:
    name, *arguments = json.loads(line)
    try:
        answer = ["ok", globals()[name](*arguments)]
    except RunError as error:
        answer = ["refused", str(error)]
    print(json.dumps(answer), flush=True)
"""


class Worker:
    """A process that takes and releases locks as it is told. `where` is a command that starts it elsewhere."""

    def __init__(self, where: Sequence[str] = ()):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen([*where, sys.executable, "-c", WORKER], text=True, bufsize=1, **pipes)
        self.pid = self.process.pid

    def send(self, *command):
        self.process.stdin.write(json.dumps(command) + "\n")

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, *command):
        self.send(*command)
        return self.answer()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
