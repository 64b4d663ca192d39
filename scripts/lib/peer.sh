# llama.cpp beside Remontoir: its library and its server, in build/peer. Sourced after common.sh, never run.

PEER="$ROOT/build/peer"
PEER_VERSION="0.3.36"
PEER_SERVER_VERSION="2026.10.11549"
# Native instructions, and nothing that isn't needed to run a model.
PEER_FLAGS="-DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_UI=OFF \
-DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
-DLLAMA_BUILD_TOOLS=OFF -DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF"

# peer_cannot_tile: true where the processor lists AMX tiles but this system doesn't let a program use them.
# llama.cpp, built for such a processor, would die of its first product.
peer_cannot_tile() {
  grep -qm1 '^flags.* amx_tile' /proc/cpuinfo || return 1
  local probe
  probe="$(mktemp -d)"
  cat >"$probe/tile.c" <<'C'
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
  const long ask_permission = 0x1023, tile_data = 18;
  if (syscall(SYS_arch_prctl, ask_permission, tile_data) != 0) return 1;
  unsigned char shape[64] __attribute__((aligned(64))) = {1};
  shape[16] = 64;
  shape[48] = 16;
  _tile_loadconfig(shape);
  _tile_zero(0);
  _tile_release();
  return 0;
}
C
  local answer=0
  # In a shell of its own, whose word on how it died goes nowhere.
  (cc -O1 -mamx-tile -o "$probe/tile" "$probe/tile.c" && "$probe/tile" || exit 1) >/dev/null 2>&1 && answer=1
  rm -rf "$probe"
  return "$answer"
}

# peer_engine 1/3: its library, built for this machine once (about 15 minutes).
peer_engine() {
  local flags="$PEER_FLAGS" tiles="as the processor has them"
  if peer_cannot_tile; then
    tiles="no AMX: this system doesn't let programs use it"
    local without="-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
    flags+=" -DCMAKE_C_FLAGS='$without' -DCMAKE_CXX_FLAGS='$without'"
  fi
  # A build serves the processor that it was made on.
  local stamp
  stamp="llama-cpp-python $PEER_VERSION, $tiles, $(grep -m1 '^flags' /proc/cpuinfo | sha256sum | cut -c1-16)"
  mkdir -p "$PEER"
  if [ "$(cat "$PEER/installed" 2>/dev/null)" != "$stamp" ]; then
    step "$1" "building llama.cpp for this machine, $tiles (build/peer/build.log)"
    rm -rf "$PEER/venv" "$PEER/installed" "$PEER/server_installed"
    python3 -m venv "$PEER/venv" || die "python3 -m venv failed; scripts/install_dependencies installs python3-venv"
    if ! CMAKE_BUILD_PARALLEL_LEVEL=2 CMAKE_ARGS="$flags" nice "$PEER/venv/bin/pip" install --disable-pip-version-check \
      --no-cache-dir --no-binary llama-cpp-python "llama-cpp-python==$PEER_VERSION" </dev/null >"$PEER/build.log" 2>&1; then
      tail -n 30 "$PEER/build.log"
      die "building llama.cpp failed"
    fi
    printf '%s\n' "$stamp" >"$PEER/installed"
  fi
}

# peer_server: its server, as a wheel, which isn't built for this machine.
peer_server() {
  mkdir -p "$PEER"
  if [ ! -x "$PEER/venv/bin/pip" ]; then
    rm -rf "$PEER/venv" "$PEER/installed" "$PEER/server_installed"
    python3 -m venv "$PEER/venv" || die "python3 -m venv failed; scripts/install_dependencies installs python3-venv"
  fi
  local server_stamp="xllamacpp $PEER_SERVER_VERSION"
  if [ "$(cat "$PEER/server_installed" 2>/dev/null)" != "$server_stamp" ]; then
    "$PEER/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --only-binary xllamacpp \
      "xllamacpp==$PEER_SERVER_VERSION" </dev/null || die "installing xllamacpp failed"
    printf '%s\n' "$server_stamp" >"$PEER/server_installed"
  fi
}
