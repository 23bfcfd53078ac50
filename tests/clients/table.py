"""The table of checks: client, check and result."""

import contextlib
import io
import sys
import traceback


class Table:
    def __init__(self):
        self.rows = []

    def add(self, client, what, holds, detail):
        self.rows.append((client, what, holds, detail))
        print(f"{'ok  ' if holds else 'MISS'} {client}: {what}" + ("" if holds else f": {detail}"), file=sys.stderr, flush=True)

    def check(self, client, what, call, *arguments):
        """Runs one check; any exception is a failure. A check reports its result by printing or by its return value."""
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                found = call(*arguments)
        except Exception as error:  # one failure must not hide the others
            where = traceback.extract_tb(error.__traceback__)[-1]
            self.add(client, what, False, f"{type(error).__name__}: {error} ({where.filename.rpartition('/')[2]}:{where.lineno})")
            return
        self.add(client, what, True, found or "; ".join(printed.getvalue().strip().splitlines()))

    def misses(self):
        return sum(not holds for _, _, holds, _ in self.rows)

    def show(self):
        heads = ("client", "what", "", "found")
        rows = [(client, what, "ok" if holds else "MISS", detail) for client, what, holds, detail in self.rows]
        widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(3)]
        for row in [heads, tuple("-" * width for width in [*widths, 5]), *rows]:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0])).rstrip())
        print(f"\n{len(rows)} checks, {self.misses()} missed")
