# Each recipe is one line that can be typed by hand.

# the robustness check on the defaults
check:
    cargo run --release -p isomer -- check

# every test, with all set-up
test:
    tests/run

# every encoder family against its reference: tiny checkpoints, and the real models that are at hand
parity:
    cargo test -p isomer-embed --test parity -- --nocapture --test-threads=1

# the isomer command for NVIDIA GPUs (no GPU needed to build; the first time takes hours on two
# cores)
cuda:
    embed-svc/cuda/build

# packs what a GPU machine without network needs, checks the pack, and measures where a GPU answers
gpu:
    tests/gpu/pack

# what CI runs
ci:
    .ci/run

fmt:
    cargo fmt --all

lint:
    cargo clippy --workspace --all-targets -- -D warnings

docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

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

# Criterion benchmarks of the kernels
bench:
    cargo bench -p isomer-kernels

# sentences per second of `isomer embed` beside sentence-transformers
bench-embed:
    python3 tests/bench/embed_vs_sentence_transformers.py --help
