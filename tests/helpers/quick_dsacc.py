"""`dsacc` without the two seconds that importing torch takes: a process that has imported it forks for each call.

The program that a test puts on the path hands its arguments, folder, environment and standard streams to that process,
and ends with the exit code of the fork. Every call still is a process of its own.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

CLIENT = """#!{python} -SE
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
short, words = {short!r}, " ".join(sys.argv[1:3]).split(":")[0]
extra = short.get(words, short.get(sys.argv[1], [])) if os.environ.get("SHORT") else []
call = json.dumps([[*sys.argv[1:], *extra], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(call).to_bytes(4, "big")], [0, 1, 2])
server.sendall(call)
sys.exit(int(server.recv(8) or b"70"))
"""


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """Start the process; gives the address for `program`."""
    folder = tempfile.mkdtemp(prefix="dsacc-test-")  # an address of a socket must be short
    address = f"{folder}/s"
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")  # no thread to fork
    process = subprocess.Popen([sys.executable, __file__, address], env=os.environ | one, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield address
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


def program(address: str, short: dict[str, list[str]]) -> str:
    """The text of a program `dsacc`. With SHORT in the environment it adds the options of `short` for the command."""
    return CLIENT.format(python=sys.executable, address=address, short=short)


def _serve(address: str) -> None:
    import dsacc.cli
    import dsacc.dsac
    import dsacc.hardening
    import dsacc.play  # noqa: F401

    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    while True:
        client, _ = server.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            server.close()
            code = 70
            try:
                code = _answer(client)
            finally:
                client.sendall(str(code).encode())
                os._exit(0)
        client.close()


def _answer(client: socket.socket) -> int:
    size, streams, _, _ = socket.recv_fds(client, 4, 3)
    data = b""
    while len(data) < int.from_bytes(size, "big"):
        data += client.recv(1 << 16)
    arguments, folder, environment = json.loads(data)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["dsacc", *arguments]
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, mode) for n, mode in ((0, "r"), (1, "w"), (2, "w")))
    from dsacc.cli import main

    try:
        code = main(arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return int(code or 0)


if __name__ == "__main__":
    _serve(str(Path(sys.argv[1])))
