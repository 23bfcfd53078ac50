#!/usr/bin/env bash
# Checks and measures embed-svc on a machine with one GPU and no network.
#
#   tests/gpu/pack                what that machine needs, into .gpu (here, before)
#   tests/gpu/lease.sh a          is it right, and where does the time go: two minutes
#   tests/gpu/lease.sh b          how fast is it, beside transformers: five and a half minutes
#   tests/gpu/lease.sh rehearse   the steps of both with tiny models on Candle's CPU device
#
# OUT is the folder of the results: rows.jsonl, table.md, log.txt, env.txt, two tables of ncu and
# sanitizer.txt. A step that fails leaves a row `exit`; the others continue. LIMIT is the number of
# seconds after which no step runs.
set -uo pipefail
OUT="${OUT:-$(mktemp -d)}"
mkdir -p "$OUT" && OUT="$(realpath "$OUT")" && cd "$(dirname "$0")/../.." || exit 2
SCRIPTS="$PWD/tests/gpu" FIXTURES="$PWD/embed-svc/tests/fixtures"
ROWS="$OUT/rows.jsonl" LOG="$OUT/log.txt"
: >"$ROWS"

# step SECONDS COMMAND...: appends what the command prints to the rows.
step() {
    local seconds="$1" code=0
    shift
    echo "## $SECONDS s: $*" | tee -a "$LOG"
    ((seconds <= LIMIT - SECONDS)) || seconds=$((LIMIT - SECONDS))
    if ((seconds > 2)); then timeout -k 2 "$seconds" "$@" >>"$ROWS" 2>>"$LOG" || code=$?; else code=124; fi
    ((code == 0)) || printf '{"what":"exit","code":%d,"command":"%s"}\n' "$code" "$*" >>"$ROWS"
}
on_gpu() { [ "$DEVICE" = candle-cpu ] || "$@"; }
gpu() {
    local seconds="$1"
    shift
    step "$seconds" ./gpu --device "$DEVICE" "$@"
}

# Kernels of the first layers of one batch, with their times.
profile() {
    on_gpu step 30 ncu --clock-control none --profile-from-start off --launch-count 60 --csv --print-units base --log-file "$OUT/ncu-$1.csv" \
        --metrics gpu__time_duration.sum ./gpu --note ncu speed --tokens 250 --seconds 0 --rounds 1 --profile "$1"
}

parity() { gpu 90 --precisions f32,f16,bf16 parity minilm "${FAMILIES[@]}"; }
check_bits() { gpu 40 --precisions bf16,f32 bits --batch-tokens "$BATCH" "$@"; }
speed() {
    local precision="$1" tokens="$2" batch="$3"
    shift 3
    gpu 40 --precisions "$precision" speed --tokens "$tokens" --batch-tokens "$batch" --seconds "$ROUND" "$@"
}

stage_a() {
    (on_gpu step 60 python3 "$SCRIPTS/make.py" . fixtures bert-large q06) & local making=$!
    parity
    check_bits minilm fixtures/qwen3 fixtures/mpnet
    gpu 20 many --texts "$MANY" minilm
    gpu 20 --precisions bf16,f32 poison minilm fixtures/qwen3
    wait "$making"
    speed bf16 "15,$MEDIUM" "$BATCH" minilm
    speed bf16 "$MEDIUM" "$BATCH" bert-large q06
    profile bert-large
    profile q06
    on_gpu step 30 python3 "$SCRIPTS/ceilings.py"
    gpu 20 memory --batches "$BATCHES" minilm
}

stage_b() {
    (on_gpu step 60 python3 "$SCRIPTS/make.py" . fixtures mpnet bert-large q06 q8cut) & local making=$!
    parity
    wait "$making"
    gpu 40 parity bert-large mpnet q06
    check_bits minilm fixtures/qwen3 fixtures/mpnet bert-large q06
    for model in minilm mpnet bert-large; do speed bf16 "15,$MEDIUM,$LONG" "$BATCH" "$model"; done
    for model in q06 q8cut; do speed bf16 "15,$MEDIUM,$LONGEST" "$BATCH" "$model"; done
    local specs=() model
    for model in minilm mpnet bert-large; do specs+=("$model:bf16:"{15,250,512}":16384,65536"); done
    for model in q06 q8cut; do specs+=("$model:bf16:"{15,250}":16384,65536" "$model:bf16:8192:65536"); done
    on_gpu step 110 python3 "$SCRIPTS/st.py" "${specs[@]}"
    speed f16,f32 "$MEDIUM" "$SMALL" minilm bert-large q06
    on_gpu step 40 python3 "$SCRIPTS/st.py" {minilm,bert-large,q06}:{f16,f32}:250:16384
    gpu 20 latency --calls "$CALLS" minilm bert-large q06
    gpu 30 service --tokens "$MEDIUM" --texts "$TEXTS" --batch-tokens "$BATCH" minilm
    gpu 30 service --tokens 15 --texts "$((5 * TEXTS))" --batch-tokens "$BATCH" minilm
    gpu 20 cancel --each "$EACH" minilm
    on_gpu out_of_memory
    on_gpu sanitize
    profile bert-large
    profile q06
    gpu 20 poison minilm fixtures/qwen3
    gpu 20 many --texts "$MANY" minilm
    gpu 20 memory --batches "$BATCHES" minilm
    on_gpu step 30 python3 "$SCRIPTS/ceilings.py"
    # The noise: the first speeds once more.
    gpu 20 --note again speed --tokens "15,$MEDIUM" --batch-tokens "$BATCH" --seconds "$ROUND" minilm
}

# Too little for whole batches, enough for halves.
out_of_memory() {
    local filler
    coproc FILLER { exec timeout 40 python3 "$SCRIPTS/filler.py" 2.5 30; }
    filler=$FILLER_PID
    read -r -t 20 line <&"${FILLER[0]}" && echo "$line" >>"$LOG"
    gpu 20 --note "2.5 GiB free" service --tokens 250 --texts 3000 --each 262 --batch-tokens 65536 bert-large
    kill "$filler" && wait "$filler"
} 2>>"$LOG"

sanitize() {
    step 40 compute-sanitizer --tool memcheck --print-limit 5 --log-file "$OUT/sanitizer.txt" --error-exitcode 9 \
        ./gpu --note memcheck parity fixtures/qwen3 fixtures/bert_poolings
    tail -n 3 "$OUT/sanitizer.txt"
}

set_up_machine() {
    { nvidia-smi -L; nvidia-smi --query-gpu=driver_version,clocks.max.sm,memory.total --format=csv; grep -m1 "model name" /proc/cpuinfo; nproc; } | tee "$OUT/env.txt"
    # Keeps the driver loaded between processes.
    nvidia-smi -l 5 >/dev/null 2>&1 & trap "kill $!" EXIT
    for archive in .gpu/*.tar.xz; do tar xJf "$archive" -C "$WORK" || exit 2; done
    LD_LIBRARY_PATH="$(python3 -c "import glob, sys; print(':'.join(path for place in sys.path for path in glob.glob(place + '/nvidia/*/lib')))"):${LD_LIBRARY_PATH:-}"
    export LD_LIBRARY_PATH CUDA_CACHE_PATH="$WORK/jit" CUDA_CACHE_MAXSIZE=4294967296 HF_HUB_OFFLINE=1
    ldd "$WORK/gpu" | grep "not found"
}

# Tiny models stand in for the named ones.
set_up_rehearsal() {
    local model
    cargo build --quiet --locked -p isomer-embed --example gpu || exit 2
    cp "${CARGO_TARGET_DIR:-target}/debug/examples/gpu" "$WORK"
    for model in minilm:labse bert-large:bert_poolings mpnet:mpnet q06:qwen3 q8cut:qwen3; do
        cp -r "$FIXTURES/${model#*:}" "$WORK/${model%:*}"
    done
    python3 -c "import ast, sys; [ast.parse(open(file).read()) for file in sys.argv[1:]]" "$SCRIPTS"/*.py || exit 2
}

WORK="$(mktemp -d)"
DEVICE="${DEVICE:-cuda:0}" BATCH=65536 SMALL=16384 MEDIUM=250 LONG=512 LONGEST=8192 ROUND=0.4
MANY=70000 BATCHES=240 CALLS=300 TEXTS=20000 EACH=1024
case "${1:-}" in
    a) LIMIT="${LIMIT:-120}" && set_up_machine ;;
    b) LIMIT="${LIMIT:-330}" && set_up_machine ;;
    rehearse)
        set_up_rehearsal
        DEVICE=candle-cpu LIMIT=$((SECONDS + 600)) BATCH=2048 SMALL=512 MEDIUM=40 LONG=48 LONGEST=90 ROUND=0
        MANY=300 BATCHES=4 CALLS=20 TEXTS=64 EACH=8
        ;;
    *) echo "usage: tests/gpu/lease.sh a|b|rehearse" >&2 && exit 2 ;;
esac
cp -r "$FIXTURES" "$WORK/fixtures"
cd "$WORK" || exit 2
FAMILIES=()
for folder in fixtures/*/; do
    [ ! -f "$folder/config.json" ] || FAMILIES+=("${folder%/}")
done
case "$1" in
    a) stage_a ;;
    b) stage_b ;;
    rehearse) stage_a && stage_b ;;
esac
echo "## $SECONDS s: end" | tee -a "$LOG"
shopt -s nullglob
python3 "$SCRIPTS/table.py" "$ROWS" "$OUT"/ncu-*.csv | tee "$OUT/table.md"
if [ "$1" = rehearse ]; then
    rm -rf "$WORK"
    if grep -E '"error":|"what":"exit"' "$ROWS"; then exit 1; fi
    echo "$(wc -l <"$ROWS") rows, no errors"
fi
