# Sourced by the commands of this folder: Node, the npm packages, the compiled client.

npm_folder="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

# ensure_npm: the packages of package-lock.json, installed again when it changes.
ensure_npm() {
    local stamp
    stamp="$npm_folder/node_modules/.isomer-$(sha256sum "$npm_folder/package-lock.json" | cut -c1-16)"
    [ -e "$stamp" ] && return 0
    say "installing the npm packages of the TypeScript client"
    npm ci --prefix "$npm_folder" --prefer-offline --no-audit --no-fund --loglevel=error
    touch "$stamp"
}

# build_client: what is published (dist), and tests, examples and tools (build). Compiled anew only
# after a change, since each runner of the conformance suite asks for it.
build_client() {
    ensure_npm
    (
        cd "$npm_folder"
        node_modules/.bin/tsc --project tsconfig.json
        node_modules/.bin/tsc --project tsconfig.dev.json
        # Tests look into the package too.
        ln -sfn ../dist build/dist
    ) >&2
}
