"""A name server that answers as a cluster's does: the names of Services, and those of headless Services with the addresses of
their ready pods."""

import random
import socket
import struct
import threading

A, AAAA, NO_SUCH_NAME = 1, 28, 3
SUFFIX = ".cluster.local"


def resolver(address, namespace):
    """The file resolv.conf of a pod, as the kubelet writes it."""
    domains = " ".join(f"{scope}cluster.local" for scope in (f"{namespace}.svc.", "svc.", ""))
    return f"nameserver {address}\nsearch {domains}\noptions ndots:5\n"


class NameServer:
    """Answers at port 53 of an address with what `lookup` knows: name → addresses, None for a name that nobody has."""

    def __init__(self, address, lookup):
        self.lookup = lookup
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, 53))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                question, client = self.socket.recvfrom(4096)
            except OSError:
                return
            try:
                self.socket.sendto(self.answer(question), client)
            except (OSError, IndexError, UnicodeDecodeError, struct.error):
                # Not a question, or nobody waits for the answer any more.
                continue

    def answer(self, question):
        labels, at = [], 12
        while length := question[at]:
            labels.append(question[at + 1 : at + 1 + length].decode())
            at += 1 + length
        kind = struct.unpack(">H", question[at + 1 : at + 3])[0]
        asked = question[12 : at + 5]
        name = ".".join(labels).lower()
        # A cluster's names end so; others are somebody else's.
        known = self.lookup(name.removesuffix(SUFFIX)) if name.endswith(SUFFIX) else None
        addresses = random.sample(known or [], len(known or [])) if kind == A else []
        flags = 0x8580 | (NO_SUCH_NAME if known is None else 0)
        head = question[:2] + struct.pack(">HHHHH", flags, 1, len(addresses), 0, 0)
        rows = [struct.pack(">HHHIH", 0xC00C, A, 1, 5, 4) + socket.inet_aton(address) for address in addresses]
        return head + asked + b"".join(rows)

    def close(self):
        self.socket.close()
