#!/usr/bin/env bash
# Check a wheel: install it into a fresh environment and make a page with it, offline.
#     bash scripts/check_wheel.sh dist/rl_clarity-*.whl
# SITE_PACKAGES names a folder of installed dependencies to use instead of installing them.
set -euo pipefail
wheel="$(realpath "$1")"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"

if unzip -l "$wheel" | grep -E '\.test\.js|node_modules|\.samples/|/tests/'; then
    echo "$wheel contains files that are not part of the package" >&2
    exit 1
fi
if ! unzip -l "$wheel" | grep -q 'onnxruntime/.*\.wasm'; then
    echo "$wheel does not contain onnxruntime-web: make dist" >&2
    exit 1
fi
"${PYTHON:-python3}" -m venv environment
if [ -n "${SITE_PACKAGES:-}" ]; then
    environment/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --no-index "$wheel"
    echo "$SITE_PACKAGES" > "$(environment/bin/python -c 'import site; print(site.getsitepackages()[0])')/dependencies.pth"
else
    environment/bin/python -m pip --disable-pip-version-check install --quiet "$wheel[tensorflow]"
fi

# Without a network, if this machine allows a process to have none of its own.
offline=()
unshare --map-root-user --net true 2> /dev/null && offline=(unshare --map-root-user --net)
"${offline[@]}" environment/bin/rl-clarity --version
"${offline[@]}" environment/bin/rl-clarity demo --output-dir page
"${offline[@]}" environment/bin/python - <<'PYTHON'
import rl_clarity

assert "environment" in rl_clarity.__file__, rl_clarity.__file__
assert rl_clarity.open_results("page").manifest["complete"]
PYTHON
echo "$(basename "$wheel") makes a page${offline:+ offline}"
