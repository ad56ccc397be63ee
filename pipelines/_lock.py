"""One run at a time in one folder."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

LOCK = ".lock"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a run's folder; made if it is not there.

    The operating system frees it when the process ends, however it ends: the file `.lock`, which stays, blocks nobody.
    On a file system without locks, nothing is held.

    **Raises:** `ValueError` if another process, or another run of this one, holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a+") as file:
        with contextlib.suppress(OSError):  # a file system without locks
            if not _lock(file):
                file.seek(0)
                raise ValueError(
                    f"{folder}: expected no other run in this folder, found one under way (process "
                    f"{file.read().strip() or 'unknown'}); wait for it, stop it, or give this run a `folder` of its own"
                )
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
