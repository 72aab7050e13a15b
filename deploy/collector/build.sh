#!/usr/bin/env bash
# Builds the Collector of builder.yaml for the tests, with Go 1.26 or newer: about 160 s of CPU the first time.
#   bash deploy/collector/build.sh [PREFIX]        default /usr/local; what is there already is kept
set -euo pipefail
prefix=${1:-/usr/local}
folder=$(cd "$(dirname "$0")" && pwd)
[ ! -x "$prefix/bin/otelcol-rubricd" ] || exit 0
version=$(sed -n 's/.*cmd\/builder@\(v[0-9.]*\).*/\1/p' "$folder/builder.yaml" | head -n 1)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp "$folder/builder.yaml" "$scratch"
(cd "$scratch" && GOFLAGS=-buildvcs=false go run "go.opentelemetry.io/collector/cmd/builder@$version" --config builder.yaml >build.log 2>&1) \
  || { tail -n 20 "$scratch/build.log" >&2; exit 1; }
install -D "$scratch/otelcol-rubricd/otelcol-rubricd" "$prefix/bin/otelcol-rubricd"
