#!/usr/bin/env sh
# Lock the packages of some extras, with hashes, for every Python and system that live-eval supports.
#   scripts/lock.sh PYTHON EXTRA,EXTRA… FILE
# torch and torchaudio are excluded: the right build depends on the machine, and hashes differ between builds.
# constraints.txt contains their versions. Dependencies of torch on every machine are locked.
set -eu
python=$1 extras=$2 file=$3
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
"$python" -m pip install --quiet --disable-pip-version-check --target "$work/uv" uv
grep -Ev '^(torch|torchaudio)==' constraints.txt >"$work/constraints.txt"
# An override that never applies excludes the CUDA packages; its marker is removed below.
for package in torch torchaudio; do echo "$package; sys_platform == 'never'"; done >"$work/overrides.txt"
"$work/uv/bin/uv" pip compile pyproject.toml $(printf ' --extra %s' $(echo "$extras" | tr ',' ' ')) \
  --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
  --constraints "$work/constraints.txt" --overrides "$work/overrides.txt" \
  --no-emit-package torch --no-emit-package torchaudio --output-file "$work/lock.txt"
{
  echo "# Written by \`make lock\`; constraints.txt has what was held back."
  sed -E "s/ (;|and) sys_platform == 'never'//" "$work/lock.txt"
} >"$file"
