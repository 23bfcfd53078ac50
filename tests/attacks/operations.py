"""Operations that change the server's state: what each acknowledged, and whether that is still there after a restart."""

import subprocess
import time

import grpc
from server import environment
from subject import HELD, PATIENCE, tokens

RESTORED = 30


class Refused(Exception):
    """An answer with an error that is not a gRPC status."""


class Operation:
    """Acts one after another. `acknowledged` holds the acts that were answered with OK, each with the time of its answer."""

    pool = 0

    def __init__(self, gateway, api):
        self.gateway, self.api, self.acknowledged, self.number = gateway, api, [], 0
        self.prepared = []

    def prepare(self):
        """Makes, while the disk is good, what the acts need."""

    def act(self):
        """One act; returns what it acknowledged."""
        raise NotImplementedError

    def step(self):
        self.number += 1
        done = self.act()
        if done is not None:
            self.acknowledged.append((time.monotonic(), done))

    def done(self):
        return [what for _, what in self.acknowledged]

    def lost(self, windows):
        """Writes that are missing after the restart, in words.
        `windows`: times of whose calls the counts may be lost."""
        raise NotImplementedError


def absent(what, missing, of):
    return [f"{len(missing)} of {len(of)} {what}, e.g. {missing[0]}"] if missing else []


class CreateKey(Operation):
    name = "create key"

    def act(self):
        made = self.api.new_key(f"made-{self.number}")
        return made.key.id, made.secret

    def lost(self, windows):
        return absent("created keys are refused", [key for key, secret in self.done() if self.api.works(secret) is not True], self.done())


class RevokeKey(Operation):
    name, pool = "revoke key", 60

    def prepare(self):
        self.prepared = [self.api.new_key(f"revoked-{number}") for number in range(self.pool)]

    def revoke(self, key):
        self.api.access("RevokeKey", self.api.keys.RevokeKeyRequest(id=key))

    def act(self):
        made = self.prepared[self.number % self.pool]
        self.revoke(made.key.id)
        if self.number <= self.pool and self.api.works(made.secret):
            raise AssertionError(f"the key {made.key.id} is accepted after it was revoked")
        return made.key.id, made.secret

    def lost(self, windows):
        return absent("revoked keys are accepted", [key for key, secret in self.done() if self.api.works(secret) is not False], self.done())


class RevokeKeyByCommand(RevokeKey):
    """Another process on the same database."""

    name = "revoke key (command)"

    def revoke(self, key):
        words = [self.gateway.isomer, "keys", "revoke", "--config", str(self.gateway.config), key]
        try:
            done = subprocess.run(words, env=environment(self.gateway.home), capture_output=True, text=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"`isomer keys revoke` did not end within {PATIENCE} s") from None
        if done.returncode:
            raise Refused(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode} without a message")

    def act(self):
        made = self.prepared[self.number % self.pool]
        self.revoke(made.key.id)
        return made.key.id, made.secret


class ChangeLimits(Operation):
    name = "change limits"

    def prepare(self):
        self.key = self.api.new_key("limited").key.id

    def act(self):
        pb = self.api.keys
        budget = pb.KeyBudget(per=pb.BUDGET_PERIOD_MONTH, tokens=1000 + self.number)
        key = pb.ApiKey(id=self.key, limits=pb.KeyLimits(budgets=[budget]))
        self.api.access("UpdateKey", pb.UpdateKeyRequest(key=key, update_mask={"paths": ["limits"]}))
        return 1000 + self.number

    def lost(self, windows):
        key = self.api.access("GetKey", self.api.keys.GetKeyRequest(id=self.key)).key
        found, last = (key.limits.budgets[0].tokens if key.limits.budgets else 0), max(self.done(), default=0)
        return [] if last <= found <= 1000 + self.number else [f"the budget is {found}, acknowledged was {last}"]


class AuditEvents(Operation):
    """Each act of the other operations has its event, and refused attempts have theirs."""

    name = "audit event"

    def __init__(self, gateway, api, others):
        super().__init__(gateway, api)
        self.others = others

    def prepare(self):
        self.outsider = self.api.new_key("outsider").secret

    def act(self):
        # At most 20 attempts a minute are recorded. They are not judged: a refusal that cannot be
        # recorded is still a refusal.
        time.sleep(1)
        try:
            self.api.access("ListKeys", self.api.keys.ListKeysRequest(page_size=1), self.outsider)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.PERMISSION_DENIED:
                raise
            return "refused"
        raise AssertionError("a key without the scope admin listed keys")

    def lost(self, windows):
        events, after = [], 0
        while page := self.api.access("ListAuditEvents", self.api.keys.ListAuditEventsRequest(after=after)).events:
            events += page
            after = page[-1].seq
        said = {(event.act, event.target.split()[0]) for event in events if event.outcome == "OK"}
        expected = [event for operation in self.others for event in events_of(operation)]
        problems = absent("acknowledged acts have no event", [event for event in expected if event not in said], expected)
        words = [self.gateway.isomer, "keys", "audit", "--verify", "--config", str(self.gateway.config)]
        done = subprocess.run(words, env=environment(self.gateway.home), capture_output=True, text=True, timeout=PATIENCE)
        return problems + ([f"keys audit --verify: {done.stderr.strip()}"] if done.returncode else [])


def events_of(operation):
    act = {
        CreateKey: "keys.create",
        RevokeKey: "keys.revoke",
        RevokeKeyByCommand: "keys.revoke",
        CreateProvider: "providers.create",
        DeleteProvider: "providers.delete",
    }.get(type(operation))
    if act is None:
        return []
    names = [done[0] if isinstance(done, tuple) else done for done in operation.done()]
    return [(act, f"key:{name}" if act.startswith("keys") else name) for name in names]


class Charge(Operation):
    name = "charge"

    def prepare(self):
        pb = self.api.keys
        budget = pb.KeyBudget(per=pb.BUDGET_PERIOD_TOTAL, tokens=10**9)
        self.payer = self.api.new_key("payer", limits=pb.KeyLimits(budgets=[budget]))

    def act(self):
        texts = [f"Text {number} of call {self.number}." for number in range(3)]
        self.api.encode(texts, self.payer.secret)
        return sum(map(tokens, texts))

    def lost(self, windows):
        used = used_tokens(self.api, self.payer.key.id)
        sure = sum(spent for at, spent in self.acknowledged if not any(begin <= at <= end for begin, end in windows))
        return [] if used >= sure else [f"{used} tokens are charged of {sure} that were used"]


def used_tokens(api, key):
    return api.access("GetKey", api.keys.GetKeyRequest(id=key)).key.used_in_total.tokens


class CreateProvider(Operation):
    name = "create provider"

    def described(self, name, **more):
        pb = self.api.providers
        return pb.Provider(
            id=name, kind=pb.PROVIDER_KIND_OPENAI, address=self.gateway.models.address, encoders={f"enc-{name}": "stub"}, **more
        )

    def create(self, name):
        self.api.provider("CreateProvider", self.api.providers.CreateProviderRequest(provider=self.described(name)))
        return name

    def act(self):
        return self.create(f"made-{self.number}")

    def there(self):
        found, token = {}, ""
        while True:
            page = self.api.provider("ListProviders", self.api.providers.ListProvidersRequest(page_size=1000, page_token=token))
            found |= {provider.id: provider for provider in page.providers}
            token = page.next_page_token
            if not token:
                return found

    def lost(self, windows):
        there = self.there()
        return absent("created providers are missing", [name for name in self.done() if name not in there], self.done())


class RegisterProvider(CreateProvider):
    """A provider that registers itself, and renews its lease."""

    name = "register with lease"

    def act(self):
        name, pb = f"leased-{self.number % 20}", self.api.providers
        provider = self.described(name)
        provider.lease.FromSeconds(3600)
        self.api.provider("UpdateProvider", pb.UpdateProviderRequest(provider=provider, allow_missing=True))
        self.api.provider("RenewLease", pb.RenewLeaseRequest(id=name))
        return name


class ChangeProvider(CreateProvider):
    name = "change provider"

    def prepare(self):
        self.create("priced")

    def act(self):
        provider = self.api.providers.Provider(id="priced", price_per_million_tokens=self.number)
        request = self.api.providers.UpdateProviderRequest(provider=provider, update_mask={"paths": ["price_per_million_tokens"]})
        self.api.provider("UpdateProvider", request)
        return self.number

    def lost(self, windows):
        found, last = self.there()["priced"].price_per_million_tokens, max(self.done(), default=0)
        return [] if last <= found <= self.number else [f"the price is {found}, acknowledged was {last}"]


class DeleteProvider(CreateProvider):
    name, pool = "delete provider", 40

    def prepare(self):
        self.prepared = [self.create(f"gone-{number}") for number in range(self.pool)]

    def act(self):
        if not self.prepared:
            self.prepared.append(self.create(f"gone-again-{self.number}"))
        name = self.prepared[-1]
        try:
            self.api.provider("DeleteProvider", self.api.providers.DeleteProviderRequest(id=name))
        except grpc.RpcError as error:
            # An earlier try that was answered with an error may have removed it.
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            self.prepared.pop()
            return None
        return self.prepared.pop()

    def lost(self, windows):
        there = self.there()
        return absent("deleted providers are there", [name for name in self.done() if name in there], self.done())


class CreateRun(Operation):
    name = "create run"

    def prepare(self):
        self.owner = self.api.new_key(f"owner of {self.name}")

    def act(self):
        request = f"request-{self.number}"
        return request, self.number, self.api.new_run(self.number, self.owner.secret, request_id=request).id

    def lost(self, windows):
        there, token = set(), ""
        while True:
            page = self.api.run("ListRuns", self.api.runs.ListRunsRequest(page_token=token), self.owner.secret)
            there |= {run.id for run in page.runs}
            token = page.next_page_token
            if not token:
                break
        problems = absent("created runs are not listed", [run for _, _, run in self.done() if run not in there], self.done())
        others = [
            run for request, seed, run in self.done()[-5:] if self.api.new_run(seed, self.owner.secret, request_id=request).id != run
        ]
        return problems + absent("request ids start another run", others, self.done()[-5:])


class FinishRun(CreateRun):
    """A run that was seen to succeed, and its charge."""

    name = "finish run"

    def act(self):
        run = self.api.new_run(10_000 + self.number, self.owner.secret).id
        for _ in range(PATIENCE * 10):
            seen = self.api.seen_run(run, self.owner.secret)
            if seen.HasField("end_time"):
                break
            time.sleep(0.1)
        else:
            raise AssertionError(f"the run {run} has not ended within {PATIENCE} s")
        if seen.error:
            raise Refused(seen.error)
        return run, seen.counters.tokens_encoded

    def lost(self, windows):
        pb, problems = self.api.runs, []
        for run, _ in self.done():
            try:
                state = self.api.seen_run(run, self.owner.secret).state
                if state != pb.RUN_STATE_SUCCEEDED:
                    problems.append(f"{run} is {pb.RunState.Name(state)}")
                    continue
                self.api.run("GetReport", pb.GetReportRequest(id=run, format=pb.REPORT_FORMAT_JSON), self.owner.secret)
            except grpc.RpcError as error:
                problems.append(f"{run}: {error.details()}")
        return absent("runs that succeeded are not there", problems, self.done()) + self.uncharged()

    def uncharged(self):
        """A deferred charge is taken over when its lease has ended."""
        counted, begun = sum(used for _, used in self.done()), time.monotonic()
        while (used := used_tokens(self.api, self.owner.key.id)) < counted:
            if time.monotonic() - begun > RESTORED:
                return [f"{used} tokens are charged of {counted} that finished runs used"]
            time.sleep(0.5)
        return []


class CancelRun(CreateRun):
    name, pool = "cancel run", 18

    def prepare(self):
        super().prepare()
        self.prepared = [self.api.new_run(number, self.owner.secret, HELD).id for number in range(self.pool)]

    def act(self):
        run, pb = self.prepared[self.number % self.pool], self.api.runs
        ended = self.api.run("CancelRun", pb.CancelRunRequest(id=run, reason="a test"), self.owner.secret).run
        if ended.state == pb.RUN_STATE_CANCELLED:
            return run
        # It failed before: by a restart, or because its record could not be written.
        return None

    def lost(self, windows):
        pb, problems = self.api.runs, []
        for run in dict.fromkeys(self.done()):
            state = self.api.seen_run(run, self.owner.secret).state
            if state != pb.RUN_STATE_CANCELLED:
                problems.append(f"{run} is {pb.RunState.Name(state)}")
        return absent("cancelled runs are not cancelled", problems, self.done())


class DeleteRun(CreateRun):
    name, pool = "delete run", 20

    def prepare(self):
        super().prepare()
        self.prepared = [self.api.new_run(20_000 + number, self.owner.secret).id for number in range(self.pool)]
        for run in self.prepared:
            while not self.api.seen_run(run, self.owner.secret).HasField("end_time"):
                time.sleep(0.1)

    def act(self):
        if not self.prepared:
            time.sleep(1)
            run = self.api.new_run(30_000 + self.number, self.owner.secret).id
            while not self.api.seen_run(run, self.owner.secret).HasField("end_time"):
                time.sleep(0.1)
            self.prepared.append(run)
        run = self.prepared[-1]
        try:
            self.api.run("DeleteRun", self.api.runs.DeleteRunRequest(id=run), self.owner.secret)
        except grpc.RpcError as error:
            # An earlier try that was answered with an error may have removed it.
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            self.prepared.pop()
            return None
        return self.prepared.pop()

    def lost(self, windows):
        there = []
        for run in self.done():
            try:
                self.api.seen_run(run, self.owner.secret)
                there.append(run)
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.NOT_FOUND:
                    there.append(f"{run}: {error.details()}")
        return absent("deleted runs are there", there, self.done())


KEYS = [CreateKey, RevokeKey, RevokeKeyByCommand, ChangeLimits, CreateProvider, RegisterProvider, ChangeProvider, DeleteProvider, Charge]
RUNS = [CreateRun, FinishRun, CancelRun, DeleteRun]
