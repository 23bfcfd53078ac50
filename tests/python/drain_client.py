#!/usr/bin/env python3
"""Stops a server under load and checks that nothing in flight is lost.

Keeps N Encode requests in flight, each over its own connection, sends SIGTERM to the server in the middle of them, and checks that
  * every request that was in flight completes with OK and all its rows,
  * new connections are refused while those requests still run, and stay refused,
  * the process ends by itself.
  Requests are sized by a first measurement so that together they take about --seconds: the signal arrives in the middle.

Exit code 0: all checks pass. 1: a check failed (the reason is on stderr). Linux only (reads /proc).
"""

import argparse
import os
import pathlib
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc

from isomer_stubs import CheckFailed, channel, described, expect, generated_stubs

# About forty tokens; the number in front keeps the texts apart.
TEXT = (
    "{}: the harbour was empty when the last ferry came in, so the crew tied it up, "
    "swept the deck and walked home along the quay without saying much."
)


class Client:
    """One connection and the requests it sends."""

    def __init__(self, address, stubs, encoder_id):
        self._messages = stubs.message("isomer/encoder/v1/encoder")
        self._channel = channel(address, own_connection=True)
        grpc.channel_ready_future(self._channel).result(timeout=10)
        self._stub = stubs.grpc("isomer/encoder/v1/encoder").EncoderServiceStub(self._channel)
        self._encoder_id = encoder_id

    def limits(self):
        return self._stub.GetEncoder(self._messages.GetEncoderRequest(id=self._encoder_id), timeout=300).encoder

    def encode(self, first, count):
        """Sends one request; returns (start, end, None or the fault); times are of the monotonic clock."""
        inputs = [self._messages.Input(text=TEXT.format(number)) for number in range(first, first + count)]
        request = self._messages.EncodeRequest(encoder_id=self._encoder_id, inputs=inputs)
        start, problem = time.monotonic(), None
        try:
            response = self._stub.Encode(request, timeout=600)
            if response.embeddings.rows != count or response.errors:
                problem = f"{response.embeddings.rows} of {count} rows, {len(response.errors)} item errors"
        except grpc.RpcError as error:
            problem = described(error)
        return start, time.monotonic(), problem

    def close(self):
        self._channel.close()


def refused(address):
    """None if a new connection is refused; else what happened instead."""
    host, port = address.rsplit(":", 1)
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=2):
            return "accepted"
    except ConnectionRefusedError:
        return None
    except OSError as error:
        return str(error)


def running(pid):
    """Whether a process still runs; a process that has ended and waits for its parent (a zombie) does not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Watcher(threading.Thread):
    """Records, from the signal on, when new connections were first refused, whether one was accepted again, and when the process ended."""

    def __init__(self, address, pid):
        super().__init__(daemon=True)
        self._address, self._pid = address, pid
        self.refused_at, self.accepted_again, self.ended_at = None, False, None

    def run(self):
        while self.ended_at is None:
            outcome = refused(self._address)
            if outcome is None and self.refused_at is None:
                self.refused_at = time.monotonic()
            elif outcome == "accepted" and self.refused_at is not None:
                self.accepted_again = True
            if not running(self._pid):
                self.ended_at = time.monotonic()
            time.sleep(0.02)


def size_of_requests(client, clients, seconds):
    """Texts per request so that `clients` requests at once take about `seconds`."""
    most = client.limits().max_batch_items or 1024
    client.encode(0, 32)  # loads the model, warms it up
    probe = min(128, most)
    start, end, problem = client.encode(0, probe)
    expect(problem is None, f"the first request failed: {problem}")
    rate = probe / (end - start)
    return max(1, min(most, round(rate * seconds / clients))), rate


def drain(args, stubs):
    clients = [Client(args.address, stubs, args.encoder) for _ in range(args.requests)]
    size, rate = size_of_requests(clients[0], args.requests, args.seconds)
    print(f"load: {args.requests} connections, {size} texts a request (the server does about {rate:.0f} texts/s)")

    watcher = Watcher(args.address, args.pid)
    with ThreadPoolExecutor(args.requests) as pool:
        futures = [pool.submit(client.encode, i * size, size) for i, client in enumerate(clients)]
        # Long enough for every request to have reached the server, short enough that none is done.
        time.sleep(args.settle)
        done_before = sum(future.done() for future in futures)
        signalled = time.monotonic()
        os.kill(args.pid, signal.SIGTERM)
        watcher.start()
        results = [future.result() for future in futures]
    watcher.join(args.exit_within)
    for client in clients:
        client.close()

    in_flight = [(end - signalled, problem) for _, end, problem in results if end > signalled]
    lost = [problem for _, problem in in_flight if problem]
    last = max((end for end, _ in in_flight), default=0.0)
    print(f"in flight at SIGTERM: {len(in_flight)}; ended OK: {len(in_flight) - len(lost)}; lost: {len(lost)}")
    print(f"last answer {last:.2f} s after SIGTERM")
    for problem in sorted(set(lost)):
        print(f"  lost {lost.count(problem)} x {problem}")
    expect(
        len(in_flight) * 2 >= args.requests,
        f"only {len(in_flight)} of {args.requests} requests were still in flight ({done_before} were done before the signal); "
        "raise --seconds",
    )
    expect(not lost, f"{len(lost)} of {len(in_flight)} requests in flight were lost")

    expect(watcher.refused_at is not None, "new connections were never refused")
    closed = watcher.refused_at - signalled
    print(f"new connections refused from {closed:.2f} s after SIGTERM on")
    expect(closed <= args.refuse_within, f"new connections were accepted for {closed:.2f} s, should be at most {args.refuse_within:g} s")
    expect(closed < last, "new connections were refused only after the last answer: the server did not drain, it stopped")
    expect(not watcher.accepted_again, "a new connection was accepted after others had been refused")
    expect(watcher.ended_at is not None, f"process {args.pid} still runs {args.exit_within:g} s after the last answer")
    print(f"process ended {watcher.ended_at - signalled:.2f} s after SIGTERM")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="host:port of a running server")
    parser.add_argument("pid", type=int, help="process id of that server")
    parser.add_argument("--requests", type=int, default=8, help="requests in flight (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=4, help="how long they should take together (default: %(default)s)")
    parser.add_argument("--settle", type=float, default=0.3, help="seconds from sending to SIGTERM (default: %(default)s)")
    parser.add_argument("--refuse-within", type=float, default=1, help="seconds from SIGTERM to refusal (default: %(default)s)")
    parser.add_argument("--exit-within", type=float, default=10, help="seconds from last answer to exit (default: %(default)s)")
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2", help="encoder id (default: %(default)s)")
    args = parser.parse_args()
    try:
        expect(running(args.pid), f"no process {args.pid}")
        with generated_stubs() as stubs:
            drain(args, stubs)
    except grpc.FutureTimeoutError:
        print(f"FAILED: no server at {args.address}", file=sys.stderr)
        return 1
    except grpc.RpcError as error:
        print(f"FAILED: {described(error)}", file=sys.stderr)
        return 1
    except (CheckFailed, OSError) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
