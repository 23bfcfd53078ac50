"""A server that a script starts."""

import collections
import subprocess
import sys
import threading


def serve(isomer, home, arguments, listen="127.0.0.1:0", stderr=subprocess.DEVNULL):
    """Starts `isomer serve` and waits for its address; returns the process and the address."""
    process = subprocess.Popen(
        [isomer, "serve", "--listen", listen, *arguments],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )
    for line in process.stdout:
        if line.startswith("isomer serves "):
            address = line.split()[-1]
            break
    else:
        sys.exit("the server ended before it printed its address")
    # Keeps reading, so that the server never blocks on a full pipe.
    threading.Thread(target=collections.deque, args=(process.stdout, 0), daemon=True).start()
    return process, address


def environment(home):
    """The environment of a process with its own home folder and without downloads."""
    return {"ISOMER_HOME": str(home), "ISOMER_OFFLINE": "1", "PATH": "/usr/bin:/bin"}
