# What every script shares: where the project is, how steps are said, and where Python lives.
# Sourced, never run.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
cd "$ROOT"

# ccache finds an object again from another checkout of the same sources.
export CCACHE_BASEDIR="$ROOT" CCACHE_NOHASHDIR=1

# step 2/5 "building": one progress line.
step() { printf '[%s] %s\n' "$1" "$2"; }

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# Where the default model and later the others are kept.
model_home() { printf '%s' "${REMONTOIR_HOME:-$HOME/.cache/remontoir}"; }
DEFAULT_MODEL_FILE="SmolLM2-135M-Instruct.Q4_1.gguf"

# The project's own Python: Debian's is closed to pip, so a virtual environment under build/ holds what
# tests and downloads need. venv -- REQUIREMENTS-FILE...: makes it and installs the pinned packages.
VENV="$ROOT/build/venv"
venv() {
  shift
  if [ ! -x "$VENV/bin/pip" ]; then
    rm -rf "$VENV"
    python3 -m venv "$VENV" || die "python3 -m venv failed; scripts/install_dependencies installs python3-venv"
  fi
  local file stamp
  for file in "$@"; do
    stamp="$VENV/$(printf '%s' "$file" | tr '/' '_').installed"
    if ! cmp -s "$file" "$stamp"; then
      "$VENV/bin/pip" install --quiet --disable-pip-version-check --requirement "$file" </dev/null
      cp "$file" "$stamp"
    fi
  done
}

# The first free TCP port of 127.0.0.1 from $1 on.
free_port() {
  python3 - "$1" <<'PY'
import socket, sys
for port in range(int(sys.argv[1]), 65536):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            continue
    print(port)
    break
else:
    sys.exit("no free port")
PY
}
