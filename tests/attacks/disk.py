"""A small ext4 file system in a file, and what can happen to it."""

import contextlib
import errno
import fcntl
import os
import random
import sqlite3
import struct
import subprocess
import threading
import time

# Ends all writing at once, the journal's too, as a power cut does (FS_IOC_SHUTDOWN, NOLOGFLUSH).
SHUTDOWN, WITHOUT_FLUSHING = 0x8004587D, 2


class Disk:
    """An ext4 file system on a loop device. Needs root."""

    def __init__(self, folder, mebibytes, block_bytes):
        self.image, self.folder = folder / "disk.img", folder / "disk"
        self.filler = self.folder / "filler"
        self.folder.mkdir()
        with open(self.image, "wb") as image:
            image.truncate(mebibytes << 20)
        command("mkfs.ext4", "-q", "-m", "0", "-b", str(block_bytes), self.image)
        command("mount", "-o", "loop", self.image, self.folder)

    def fill(self):
        """Takes all free blocks. A write in flight may take or free some, so it is tried a few times. A write-ahead log
        of SQLite is emptied before, since a transaction that fits into its old blocks needs no new ones."""
        for database in self.folder.glob("**/*.sqlite"):
            with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(database, timeout=0.5)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with open(self.filler, "ab") as filler:
            for size in [1 << 20, 1 << 16, 1 << 12, 1 << 10] * 2:
                try:
                    while True:
                        os.posix_fallocate(filler.fileno(), os.fstat(filler.fileno()).st_size, size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def free(self):
        self.filler.unlink(missing_ok=True)

    def freeze(self):
        """Every write waits until `thaw`."""
        command("fsfreeze", "--freeze", self.folder)

    def thaw(self):
        command("fsfreeze", "--unfreeze", self.folder)

    def abort(self):
        """Makes it read-only although files are open for writing, as the kernel does after an error of the device."""
        command("mount", "-o", "remount,abort", self.folder)

    def cut_power(self):
        handle = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, SHUTDOWN, struct.pack("I", WITHOUT_FLUSHING))
        finally:
            os.close(handle)

    def mount_again(self):
        """No process may have a file open."""
        command("umount", self.folder)
        # 1: errors were corrected.
        command("e2fsck", "-p", self.image, allowed=(0, 1))
        command("mount", "-o", "loop", self.image, self.folder)

    def remove(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            self.thaw()
        with contextlib.suppress(subprocess.CalledProcessError):
            command("umount", "--lazy", self.folder)
        self.image.unlink()


def command(*words, allowed=(0,)):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode not in allowed:
        raise subprocess.CalledProcessError(done.returncode, done.args, done.stdout, done.stderr)


class Fault:
    """Fault of the disk, for some seconds.
    `ends_processes`: it is over only once no process has files open there."""

    seconds, ends_processes, block_bytes = 6.0, False, 4096

    def __init__(self, disk, seed):
        self.disk, self.draw = disk, random.Random(seed)

    def begin(self):
        pass

    def end(self):
        pass


class Full(Fault):
    """The disk is full; then there is space again."""

    name = "full"

    def begin(self):
        self.disk.fill()

    def end(self):
        self.disk.free()


class FullOfSmallBlocks(Full):
    """With the blocks that mkfs.ext4 chooses for a disk below 512 MiB, a page of a mapped file can have a part without a block."""

    name, block_bytes = "full, 1k blocks", 1024


class FullAndKilled(Full):
    """The processes are killed while the disk is full, and started before there is space."""

    name, ends_processes = "full+kill", True


class Repeated(Fault):
    """A change of the disk and its opposite, again and again."""

    def begin(self):
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        while not self.over.is_set():
            self.there()
            try:
                time.sleep(self.pause())
            finally:
                self.back()
            self.over.wait(self.draw.uniform(0.02, 0.1))

    def end(self):
        self.over.set()
        self.thread.join()


class NearlyFull(Repeated):
    """The disk is full for moments, so that writes fail in the middle of what they belong to."""

    name = "full at times"

    def pause(self):
        return self.draw.uniform(0.05, 0.4)

    def there(self):
        self.disk.fill()

    def back(self):
        self.disk.free()


class Slow(Repeated):
    """Each write waits up to 0.4 s."""

    name, seconds = "slow", 8.0

    def pause(self):
        return self.draw.uniform(0.1, 0.4)

    def there(self):
        self.disk.freeze()

    def back(self):
        self.disk.thaw()


class Stalled(Fault):
    """No write ends for 8 s."""

    name, seconds = "stalled", 8.0

    def begin(self):
        self.disk.freeze()

    def end(self):
        self.disk.thaw()


class ReadOnly(Fault):
    """The kernel makes the disk read-only. Writing again needs a new mount, and so the end of all processes that use it."""

    name, ends_processes = "read-only", True

    def begin(self):
        self.disk.abort()

    def end(self):
        self.disk.mount_again()


class PowerCut(ReadOnly):
    """Data that was not synced is lost."""

    name, seconds = "power cut", 2.0

    def begin(self):
        self.disk.cut_power()


class Kill(Fault):
    """The processes are killed at random moments."""

    name, seconds, kills = "kill", 0.0, 5


FAULTS = [Full, FullOfSmallBlocks, FullAndKilled, NearlyFull, ReadOnly, PowerCut, Stalled, Slow, Kill]
