# SPDX-License-Identifier: Apache-2.0
# Functions of scripts/kube, scripts/operators and scripts/helm: they build the programs pinned in
# scripts/kube_modules with Go into a cache outside the checkout. `program` names the script.

modules=$PWD/kube_modules
caches=${XDG_CACHE_HOME:-$HOME/.cache}/kuota/kube
go_minor=26

say() { printf '%s: %s\n' "$program" "$*" >&2; }

# has_go: whether Go is installed and recent enough.
has_go() {
  local minor
  command -v go >/dev/null || return 1
  minor=$(GOTOOLCHAIN=local go env GOVERSION | sed -E 's/^go1\.([0-9]+).*/\1/')
  [ "$minor" -ge "$go_minor" ] 2>/dev/null
}

go_here() {
  nice -n 10 env GOWORK=off CGO_ENABLED=0 GOFLAGS='-mod=readonly -trimpath -buildvcs=false' go "$@"
}

# pinned MODULE DEPENDENCY: the version of a dependency of one of our modules.
pinned() { awk -v wanted="$2" 'NF > 1 && $(NF - 1) == wanted { print $NF }' "$modules/$1/go.mod"; }

# begin_build: create an empty folder `made` for programs that are not complete. The caller holds the
# lock of the cache. The folder and the compiler do not outlive the script; what a killed script left
# behind is removed here.
begin_build() {
  rm -rf "$cache"/.building.*
  made=$(mktemp -d "$cache/.building.XXXXXX")
  compiler=
  set -m # A background job is a process group, which can be ended as a whole.
  trap '[ -z "$compiler" ] || kill -- "-$compiler" 2>/dev/null || true; rm -rf "$made"' EXIT
  trap 'exit 130' INT TERM
}

# enter MODULE: go to a copy of one of our modules, so that changes of the checkout do not disturb.
enter() {
  cp -r "$modules/$1" "$made/.$1"
  cd "$made/.$1"
}

# fetch MODULE LOG: download the dependencies; calls `lack` where that is impossible.
fetch() {
  say "fetching the Go modules of $1"
  go_here mod download >"$2" 2>&1 || {
    lack "the Go modules of $1 cannot be fetched here ($(tail -n 1 "$2"))"
  }
}

# watched LOG COMMAND...: run a build with progress messages; exits with 1 if it fails. The log has a
# line for each package that was compiled.
watched() {
  local log=$1 started=$SECONDS
  shift
  "$@" >"$log" 2>&1 &
  compiler=$!
  while kill -0 "$compiler" 2>/dev/null; do
    sleep 1
    if [ $(((SECONDS - started) % 20)) -eq 19 ]; then
      say "$((SECONDS - started)) s$([ ! -s "$log" ] || echo ", $(wc -l <"$log") packages compiled")"
    fi
  done
  wait "$compiler" || { say "the build failed:"; tail -n 20 "$log" >&2; exit 1; }
  compiler=
}
