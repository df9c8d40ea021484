# SPDX-License-Identifier: Apache-2.0
# The body of scripts/operators, scripts/autoscalers and scripts/kwok, which set `table`, `ours` and `cache`.

lack() {
  say "no $program, tests that need them are skipped: $*"
  exit 3
}

rows() { awk 'NF' <<<"$table"; }
controllers() { rows | awk '$4 != "-" { print $1 }'; }
package() { rows | awk -v name="$1" '$1 == name { print $3 ($4 == "." ? "" : "/" $4) }'; }

# pinned_by MODULE NAME...: those of the operators that one of our modules pins.
pinned_by() {
  local module=$1 name
  shift
  for name in "$@"; do rows | awk -v name="$name" -v ours="$module" '$1 == name && $2 == ours { print $1 }'; done
}

# missing NAME...: the controllers that are not in the cache.
missing() {
  local name
  for name in "$@"; do [ -x "$cache/$name" ] || printf '%s\n' "$name"; done
}

# crd_files MODULE FOLDERS: the files in folders of a module, which commas separate.
crd_files() {
  local folder
  for folder in ${2//,/ }; do printf '%s\n' "$1/$folder"/*.yaml; done
}

# copy_crds MODULE: those of the operators that one of our modules pins.
copy_crds() {
  local name ours module folders file
  while read -r name ours module _ folders; do
    [ "$ours" = "$1" ] || continue
    mkdir -p "$made/crds/$name"
    for file in $(crd_files "$(go_here list -m -f '{{.Dir}}' "$module")" "$folders"); do
      grep -q '^kind: CustomResourceDefinition' "$file" || continue
      [ "$name/${file##*/}" = training-operator/kubeflow.org_mpijobs.yaml ] && continue
      install -m 644 "$file" "$made/crds/$name/"
    done
  done < <(rows)
}

link() {
  go_here build -ldflags '-s -w' -o "$made/$1" "$(package "$1")"
  mv "$made/$1" "$cache/$1"
}

# compile NAME...: build controllers that one of our modules pins, in its folder.
compile() {
  local log=$cache/build.log started=$SECONDS name packages
  packages=$(for name in "$@"; do package "$name"; done)
  say "building $* ($(go_here list -deps $packages | wc -l) packages; minutes, but only once)"
  # Without -o, several packages are only compiled. This uses all cores; linking uses one.
  watched "$log" go_here build -v $packages
  say "linking"
  for name in "$@"; do
    watched "$log" link "$name"
    say "$name built, $((SECONDS - started)) s since the start"
  done
}

build() {
  local module wanted
  begin_build
  for module in $ours; do
    enter "$module"
    fetch "$module" "$cache/build.log"
    [ -d "$cache/crds" ] || copy_crds "$module"
  done
  [ -d "$cache/crds" ] || { mv "$made/crds" "$cache/crds"; say "CustomResourceDefinitions copied"; }
  for module in $ours; do
    wanted=$(pinned_by "$module" "$@")
    [ -z "$wanted" ] || { cd "$made/.$module"; compile $wanted; }
  done
}

print() {
  local name
  [ ! -d "$cache/crds" ] || printf 'crds %s\n' "$cache/crds"
  while read -r name; do
    [ ! -x "$cache/$name" ] || printf '%s %s\n' "$name" "$cache/$name"
  done < <(controllers)
}

[ "${1:-}" = --cached ] && { print; exit; }
[ $# -gt 0 ] || set -- $(controllers)
for name in "$@"; do
  controllers | grep -qxF -- "$name" || {
    say "unknown name $name; choose from: $(controllers | tr '\n' ' ')"
    exit 2
  }
done
if [ ! -d "$cache/crds" ] || [ -n "$(missing "$@")" ]; then
  has_go || lack "they are not built yet, and no Go 1.$go_minor is here to build them"
  mkdir -p "$cache"
  exec 9>"$cache/.lock"
  flock 9
  (build $(missing "$@"))
fi
print
