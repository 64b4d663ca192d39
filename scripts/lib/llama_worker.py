"""llama.cpp as a servant of scripts/compare: measures what JSON lines on stdin ask for, through its C calls.

{"row": "prompt"|"decode"|"batch", "tokens": N, "sequences": B, "steps": S, "setting": {"file": PATH,
"flash_attention": BOOL, "unified": BOOL}} -> {"seconds": ..., "tokens": ..., "step_seconds": [...]}
Rows mean what they mean to `remontoir bench engine --worker`. Only llama_decode and llama_synchronize
are timed. {"requantise": TYPE, "from": PATH, "to": PATH} -> {"file": PATH}.
"""

import ctypes
import json
import random
import sys
import time

import llama_cpp
from llama_cpp import llama_cpp as api

BATCH = 2048  # n_batch: rows of a llama_decode
UBATCH = 512  # n_ubatch: rows that llama.cpp computes at once
TYPES = {"Q4_0": api.LLAMA_FTYPE_MOSTLY_Q4_0, "Q8_0": api.LLAMA_FTYPE_MOSTLY_Q8_0}


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def quiet(_level, _text, _data):
    """llama.cpp's log goes nowhere."""


class Rows:
    """A llama_batch with room for BATCH rows."""

    def __init__(self):
        self.batch = api.llama_batch_init(BATCH, 0, 1)

    def fill(self, rows, wants_logits):
        """rows: (token, position, sequence); wants_logits(i): whether row i does."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (token, position, sequence) in enumerate(rows):
            batch.token[i] = token
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = wants_logits(i)
        return batch


class Context:
    """A llama_context, its room a sequence and how many keys each sequence holds at least."""

    def __init__(self, handle, keys):
        self.handle = handle
        self.memory = api.llama_get_memory(handle)
        self.keys = keys
        self.filled = 0


class Worker:
    """Models, contexts and saved states by what they were made for."""

    def __init__(self, threads):
        self.threads = threads
        self.rows = Rows()
        self.models = {}
        self.contexts = {}
        self.states = {}
        self.token_ids = []

    def model(self, file):
        if file not in self.models:
            model = api.llama_model_load_from_file(file.encode(), api.llama_model_default_params())
            if not model:
                raise RuntimeError(f"llama.cpp can't load {file}")
            self.models[file] = model
        return self.models[file]

    def token(self, position):
        if not self.token_ids:
            vocabulary = api.llama_vocab_n_tokens(api.llama_model_get_vocab(next(iter(self.models.values()))))
            numbers = random.Random(1)
            self.token_ids = [numbers.randrange(vocabulary) for _ in range(1 << 14)]
        return self.token_ids[position % len(self.token_ids)]

    def context(self, setting, sequences, keys):
        """A context with room for `keys` keys of each sequence, and maybe keys of earlier rows in it."""
        keys = (keys + 255) // 256 * 256
        name = (setting["file"], setting["flash_attention"], setting.get("unified", False), sequences)
        if name in self.contexts and self.contexts[name].keys < keys:
            api.llama_free(self.contexts.pop(name).handle)
        if name not in self.contexts:
            self.contexts[name] = Context(self.make_context(setting, sequences, keys), keys)
        return self.contexts[name]

    def make_context(self, setting, sequences, keys):
        parameters = api.llama_context_default_params()
        parameters.n_ctx = keys * sequences
        parameters.n_batch = BATCH
        parameters.n_ubatch = UBATCH
        parameters.n_seq_max = sequences
        parameters.n_threads = self.threads
        parameters.n_threads_batch = self.threads
        parameters.flash_attn_type = (
            api.LLAMA_FLASH_ATTN_TYPE_ENABLED if setting["flash_attention"] else api.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        parameters.type_k = api.GGML_TYPE_F16
        parameters.type_v = api.GGML_TYPE_F16
        parameters.kv_unified = setting.get("unified", False)
        handle = api.llama_init_from_model(self.model(setting["file"]), parameters)
        if not handle:
            raise RuntimeError(f"llama.cpp can't make a context for {setting}")
        return handle

    def decode(self, context, batch):
        """Seconds of one llama_decode."""
        start = time.perf_counter()
        status = api.llama_decode(context, batch)
        api.llama_synchronize(context)
        seconds = time.perf_counter() - start
        if status != 0:
            raise RuntimeError(f"llama_decode answered {status}")
        return seconds

    def prompt(self, context, tokens):
        """Seconds of each llama_decode of a prompt in sequence 0 of an emptied context."""
        api.llama_memory_clear(context.memory, False)
        seconds = []
        for first in range(0, tokens, BATCH):
            rows = [(self.token(p), p, 0) for p in range(first, min(first + BATCH, tokens))]
            last = tokens - 1 - first
            seconds.append(self.decode(context.handle, self.rows.fill(rows, lambda i, last=last: i == last)))
        context.filled = tokens
        return seconds

    def place(self, setting, context, sequences, depth):
        """Leaves `depth` keys in each sequence, whatever was there before."""
        if context.filled < depth:
            if sequences > 1 and not setting.get("unified", False):
                self.prompt(context, depth)
                for sequence in range(1, sequences):
                    api.llama_memory_seq_cp(context.memory, 0, sequence, -1, -1)
            else:
                state = self.state(setting, depth)
                api.llama_memory_clear(context.memory, False)
                for sequence in range(sequences):
                    if api.llama_state_seq_set_data(context.handle, state, len(state), sequence) == 0:
                        raise RuntimeError("llama.cpp can't restore a sequence")
        context.filled = depth
        for sequence in range(sequences):
            api.llama_memory_seq_rm(context.memory, sequence, depth, -1)

    def state(self, setting, depth):
        """Keys and values of `depth` tokens as bytes; the weights' type changes their values, not their form."""
        name = (setting["flash_attention"], depth)
        if name not in self.states:
            context = self.context({**setting, "unified": False}, 1, depth + 1)
            self.prompt(context, depth)
            self.save(context, name)
        return self.states[name]

    def save(self, context, name):
        size = api.llama_state_seq_get_size(context.handle, 0)
        state = (ctypes.c_uint8 * size)()
        if api.llama_state_seq_get_data(context.handle, state, size, 0) != size:
            raise RuntimeError("llama.cpp can't save a sequence")
        self.states[name] = state

    def measure_prompt(self, request):
        setting, tokens = request["setting"], request["tokens"]
        context = self.context(setting, 1, tokens + 64)
        seconds = self.prompt(context, tokens)
        name = (setting["flash_attention"], tokens)
        if tokens >= 2048 and name not in self.states:
            self.save(context, name)
        return seconds, tokens

    def measure_steps(self, request):
        setting, depth, steps = request["setting"], request["tokens"], request["steps"]
        sequences = request.get("sequences", 1)
        context = self.context(setting, sequences, depth + steps + 1)
        self.place(setting, context, sequences, depth)
        seconds = []
        limit = time.perf_counter() + request.get("seconds_max", 1e9)
        # The first step builds the graph that later ones use again: it isn't counted.
        for step in range(steps + 1):
            position = depth + step
            rows = [(self.token(position), position, s) for s in range(sequences)]
            seconds.append(self.decode(context.handle, self.rows.fill(rows, lambda i: True)))
            if time.perf_counter() > limit and step > 0:
                break
        return seconds[1:], sequences * (len(seconds) - 1)

    def requantise(self, request):
        parameters = api.llama_model_quantize_default_params()
        parameters.ftype = TYPES[request["requantise"]]
        parameters.allow_requantize = True
        status = api.llama_model_quantize(
            request["from"].encode(), request["to"].encode(), ctypes.byref(parameters)
        )
        if status != 0:
            raise RuntimeError(f"llama_model_quantize answered {status}")
        return {"file": request["to"]}

    def answer(self, request):
        if "requantise" in request:
            return self.requantise(request)
        measure = self.measure_prompt if request["row"] == "prompt" else self.measure_steps
        seconds, tokens = measure(request)
        return {"seconds": sum(seconds), "tokens": tokens, "step_seconds": seconds}


def main():
    api.llama_log_set(quiet, ctypes.c_void_p(0))
    api.llama_backend_init()
    worker = Worker(int(sys.argv[1]))
    hello = {
        "engine": "llama.cpp",
        "describe": f"llama-cpp-python {llama_cpp.__version__}, {worker.threads} threads",
        "features": api.llama_print_system_info().decode(),
    }
    print(json.dumps(hello), flush=True)
    for line in sys.stdin:
        try:
            answer = worker.answer(json.loads(line))
        except (RuntimeError, KeyError, ValueError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
