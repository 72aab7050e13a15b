#!/usr/bin/env bash
# Writes a CycloneDX bill of materials of what the program installs (the locked versions of constraints.txt that it needs, not the developers' tools).
#   bash deploy/sbom.sh [FILE]        default: dist/rubricd.cdx.json. Needs cyclonedx-py (deploy/ci-tools.sh).
# PYTHON is a Python with pip that resolves what is needed; without it one is made for the purpose.
set -euo pipefail
cd "$(dirname "$0")/.."
file=${1:-dist/rubricd.cdx.json}
mkdir -p "$(dirname "$file")"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ -z "${PYTHON:-}" ]; then
  python3 -m venv "$scratch/venv"
  PYTHON=$scratch/venv/bin/python
fi
"$PYTHON" deploy/image/lock.py runtime > "$scratch/runtime.txt"
cyclonedx-py requirements --pyproject pyproject.toml --mc-type application --output-reproducible --output-file "$file" "$scratch/runtime.txt"
