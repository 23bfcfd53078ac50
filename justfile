# Each recipe is one line that can be typed by hand.

# the inner loop: formats, lints and tests the crates that changed, and checks their dependents
quick:
    tests/quick

# the robustness check on the defaults
check:
    cargo run --release -p isomer -- check

# every test, with all set-up
test:
    tests/run

# every encoder family against its reference: tiny checkpoints, and the real models that are at hand
parity:
    cargo test -p isomer-embed --test it -- --nocapture --test-threads=1 parity::

# the isomer command for NVIDIA GPUs (no GPU needed to build)
cuda:
    embed-svc/cuda/build

# packs what tests/gpu/lease.sh needs on a GPU machine without network
gpu:
    tests/gpu/pack

# what CI runs: only suites with a changed input, beside lints, Rust tests and documents
ci:
    .ci/run

# which suites a change since a commit runs
plan commit="HEAD":
    tests/suites --plan --since {{commit}}

fmt:
    cargo fmt --all

lint:
    cargo clippy --workspace --features isomer/full --all-targets -- -D warnings

docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --features isomer/full --no-deps

# needs buf (pip install buf-bin)
protos:
    buf lint proto
    buf breaking proto --against proto/released/isomer.binpb

licences:
    cargo deny check licenses bans sources

# all services behind one port
serve:
    cargo run --release -p isomer -- serve

# every reader of bytes from outside under the fuzzer, a minute each (tests/fuzz/README.md)
fuzz:
    tests/fuzz/run

# each member of the workspace and each feature by itself
features:
    tests/features

# Criterion benchmarks of the kernels
bench:
    cargo bench -p isomer-kernels

# sentences per second of `isomer embed` beside sentence-transformers
bench-embed:
    python3 tests/bench/embed_vs_sentence_transformers.py --help
