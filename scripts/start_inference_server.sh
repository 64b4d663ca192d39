#!/usr/bin/env bash
# Starts the server with inference_config.yaml; every flag is passed on to `remontoir serve`.
set -euo pipefail
caller="$PWD"
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

usage() {
  cat <<'TEXT'
Usage: scripts/start_inference_server.sh [--enable-kv-prefetch] [--use-custom-flash-attn] [SERVE-FLAG...]
Starts build/release/remontoir serve with inference_config.yaml of this repository. Flags override the file:
  --enable-kv-prefetch       KV room in buckets, pre-faulted and locked (kv_cache.strategy)
  --use-custom-flash-attn    attention that may skip (attention.mode: auto)
  --config FILE              another configuration
  --model FILE, --port N, …  see build/release/remontoir serve --help
TEXT
}

for argument in "$@"; do
  case "$argument" in
    -h | --help) usage; exit 0 ;;
  esac
done

program="$ROOT/build/release/remontoir"
[ -x "$program" ] || die "$program is not built yet; run scripts/build (or scripts/quickstart)"
flags=()
case " $* " in
  *" --config "* | *" --config="*) ;;
  *) flags+=(--config "$ROOT/inference_config.yaml") ;;
esac
case " $* " in
  *" --model "* | *" --model="* | *" -m "* | *" -hf "*) ;;
  *)
    # The file's own model.file, or else the default model.
    if ! grep -Eq '^[[:space:]]+file:[[:space:]]*[^#[:space:]]' "$ROOT/inference_config.yaml"; then
      flags+=(--model "$(model_home)/$DEFAULT_MODEL_FILE")
    fi
    ;;
esac
cd "$caller"
exec "$program" serve "${flags[@]}" "$@"
