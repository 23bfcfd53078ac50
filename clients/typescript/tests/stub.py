"""The stub server of the conformance suite, for tests in another language.

Prints its address. For each line on stdin, the name of a case (metadata `x-case`), it prints the
requests of that case as a line of JSON. It ends when stdin does.
"""

import json
import sys

from harness.stub import Stub


def main():
    server = Stub()
    print(server.address, flush=True)
    for line in sys.stdin:
        print(json.dumps(server.journal.of(line.strip())), flush=True)
    server.stop()


if __name__ == "__main__":
    main()
