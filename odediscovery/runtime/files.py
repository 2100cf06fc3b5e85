"""Files and folders that are written completely or not at all; a folder has one writer at a time.

They are written beside their place and then renamed, or exchanged with an old folder in one step of the file system:
readers see the old or the new one, never a mixture, even after a full disk or a killed program. Where folders cannot
be exchanged, files are replaced one by one, and a result's hashes reveal a mixture.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import itertools
import os
import shutil
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from odediscovery.errors import InputError, InputTypeError

try:
    import fcntl
except ImportError:  # Windows, where writers of one folder cannot detect each other
    fcntl = None  # type: ignore[assignment]


def as_path(path: object) -> Path:
    """The path of a file or a folder that a user names.

    >>> as_path(None)
    Traceback (most recent call last):
    ...
    odediscovery.errors.InputTypeError: expected the path of a file or a folder, got a NoneType
    """
    if not isinstance(path, str | os.PathLike):
        raise InputTypeError(f"expected the path of a file or a folder, got a {type(path).__name__}")
    return Path(path)


def check_file(path: Path, option: str) -> None:
    """Refuse what is no file: reading a pipe may wait for ever, and some devices never end."""
    if path.exists() and not path.is_file():
        raise InputError(f"{option} {path}: expected a file, got a folder, a pipe or a device")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file completely or not at all by renaming; links are followed, devices and pipes written directly."""
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_bytes(content)
        return
    path = path.resolve()
    beside = path.with_name(f".{path.name[:40]}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        beside.write_bytes(content)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def check_writable(path: Path, option: str) -> None:
    """Check that the nearest existing folder of a path is writable, by a temporary file."""
    begin = path.absolute().parent if path.is_file() else path
    nearest = next(p for p in (begin, *begin.absolute().parents) if p.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise InputError(f"{option} {path}: cannot be written ({error.strerror})") from error


@dataclass(frozen=True)
class Claim:
    """The right to write a folder within the context of `claimed`."""

    folder: Path  # as given by the user
    place: Path  # links resolved
    prefix: str  # of the names of temporary folders of this place

    def replace(self, fill: Callable[[Path], None], own: Collection[str]) -> None:
        """Replace the folder by one that `fill` writes, keeping files of the old one that are not `own`."""
        inside = not _is_movable(self.place)
        new = (self.place if inside else self.place.parent) / f"{self.prefix}.{uuid.uuid4().hex[:8]}.part"
        # Leftovers of killed writers: no other writer exists during this claim.
        for path in list(new.parent.glob(f"{self.prefix}.*.part")):
            shutil.rmtree(path, ignore_errors=True)
        self.place.parent.mkdir(parents=True, exist_ok=True)
        new.mkdir()
        try:
            fill(new)
            for path in new.iterdir():
                _flush(path)
            if inside or not self._exchange(new, own):
                _move_one_by_one(new, self.place, own)
            _flush(self.place.parent)
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def _exchange(self, new: Path, own: Collection[str]) -> bool:
        """Put the new folder in place in one step; False if the file system cannot."""
        if not self.place.exists() or not any(self.place.iterdir()):
            os.rename(new, self.place)
            return True
        shutil.copymode(self.place, new)
        _link_foreign(self.place, new, own)
        if not _exchanged(new, self.place):
            return False
        # Files that were added in the meantime.
        for path in [p for p in new.iterdir() if p.name not in own and not (self.place / p.name).exists()]:
            os.rename(path, self.place / path.name)
        return True


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[Claim]:
    """Claim the right to write a folder, for one writer at a time; remove folders made above it if they stay empty."""
    place = folder.resolve()
    prefix = f".odediscovery-{hashlib.sha256(os.fsencode(place.name)).hexdigest()[:12]}"
    made = list(itertools.takewhile(lambda parent: not parent.exists(), place.parents))
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        above = place.parent if os.access(place.parent, os.W_OK) or not place.is_dir() else place
        lock = _locked(above / f"{prefix}.lock", folder)
        try:
            yield Claim(folder, place, prefix)
        finally:
            if lock is not None:
                # Delete it while the lock is held: a waiting writer then finds it gone and makes a new one.
                (above / f"{prefix}.lock").unlink(missing_ok=True)
                os.close(lock)
    finally:
        for parent in made:
            with contextlib.suppress(OSError):
                parent.rmdir()


def _locked(path: Path, folder: Path) -> int | None:
    """Take a lock that the system releases when this program ends; None on systems without locks."""
    if fcntl is None:
        return None
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(lock), path.stat()):
                return lock
        except BlockingIOError:
            os.close(lock)
            raise InputError(
                f"{folder} is being written by another fit; wait until it is done, or give another --out"
            ) from None
        except FileNotFoundError:
            pass
        except OSError:
            # The file system has no locks.
            return lock
        os.close(lock)


def _is_movable(place: Path) -> bool:
    """Whether a folder can be replaced: no mount, not above the working directory, in a writable folder."""
    if not place.is_dir():
        return True
    with contextlib.suppress(OSError):
        if Path.cwd().is_relative_to(place):
            return False
    return not os.path.ismount(place) and os.access(place.parent, os.W_OK)


def _exchanged(new: Path, place: Path) -> bool:
    """Exchange the names of two folders atomically; False if this is impossible."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if rename is None:
        return False
    # <fcntl.h> and <linux/fs.h>: AT_FDCWD and RENAME_EXCHANGE.
    if not rename(-100, os.fsencode(new), -100, os.fsencode(place), 2):
        return True
    code = ctypes.get_errno()
    # Errors of file systems that cannot exchange folders, or may not move this one.
    if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EBUSY, errno.EXDEV, errno.EPERM, errno.EACCES):
        return False
    raise OSError(code, os.strerror(code), str(place))


def _link_foreign(old: Path, new: Path, own: Collection[str]) -> None:
    """Put everything that is not `own` into the new folder, by hard links if possible, else by copies."""
    for path in old.iterdir():
        copy = new / path.name
        if path.name in own or copy.exists():
            continue
        if path.is_dir() and not path.is_symlink():
            copy.mkdir()
            shutil.copymode(path, copy)
            _link_foreign(path, copy, ())
            continue
        try:
            os.link(path, copy, follow_symlinks=False)
        except OSError:
            if path.is_file() or path.is_symlink():
                shutil.copy2(path, copy, follow_symlinks=False)


def _move_one_by_one(new: Path, place: Path, own: Collection[str]) -> None:
    """Rename files in the order of `own`; if the program is killed meanwhile, hashes reveal the mixture."""
    made = {path.name for path in new.iterdir()}
    for name in own:
        if name in made:
            os.replace(new / name, place / name)
        else:
            (place / name).unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Flush a path to disk, if the system can: after a crash a name must not exist without its content."""
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
