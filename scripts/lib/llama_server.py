"""llama.cpp's server for scripts/compare, from the xllamacpp package: python llama_server.py JSON.

JSON: {"file": PATH, "threads": N, "sequences": N, "context": TOKENS OF EACH, "flash_attention": BOOL, "unified": BOOL},
and optionally "rope_freq_base": NUMBER.
Prints {"address": "http://127.0.0.1:PORT", "describe": ...} when it answers requests; ends with its stdin.
"""

import json
import os
import sys

import xllamacpp


def main():
    wanted = json.loads(sys.argv[1])
    parameters = xllamacpp.CommonParams()
    parameters.model.path = wanted["file"]
    parameters.n_parallel = wanted["sequences"]
    parameters.n_ctx = wanted["sequences"] * wanted["context"]
    parameters.cpuparams.n_threads = wanted["threads"]
    parameters.cpuparams_batch.n_threads = wanted["threads"]
    parameters.flash_attn_type = (
        xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
        if wanted["flash_attention"]
        else xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    )
    parameters.kv_unified = wanted["unified"]
    parameters.rope_freq_base = wanted.get("rope_freq_base", 0.0)  # 0: the file's
    parameters.cache_ram_mib = 0  # no request is like an earlier one
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.verbosity = 0
    server = xllamacpp.Server(parameters)
    hello = {
        "address": server.listening_address,
        "describe": f"xllamacpp {xllamacpp.__version__}",
        "features": xllamacpp.get_system_info(),
    }
    print(json.dumps(hello), flush=True)
    sys.stdin.read()
    os._exit(0)  # nothing it holds is worth an orderly end


if __name__ == "__main__":
    main()
