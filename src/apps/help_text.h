// What stands below the flags in each command's --help: examples, and what isn't obvious.
#pragma once

namespace remontoir {

inline constexpr const char* kFooter = R"(
Examples:
  remontoir run model.gguf -p "Why is the sky blue?"    one answer
  remontoir run model.gguf                              a chat in the terminal
  remontoir serve --model model.gguf --port 8080        an OpenAI-compatible server
  remontoir inspect model.gguf                          what a model file holds
  remontoir plan model.gguf                             the memory that it will take
  remontoir pull hf:OWNER/REPO:Q4_K_M                   a model from the hub, into the store

Where a MODEL is wanted, a path, a name that `remontoir list` shows and an hf: reference will do.
`remontoir COMMAND --help` says more about each.)";

inline constexpr const char* kServeFooter = R"(
Examples:
  remontoir serve --model model.gguf
  remontoir serve -hf OWNER/REPO:Q4_K_M                 pulled first when it isn't here
  remontoir serve --config inference_config.yaml --port 9000 --threads 4
  remontoir serve --model model.gguf --set engine.queue_max=32 --set kv_cache.memory="2 GiB"

Then, from another terminal:
  curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \
    -d '{"model": "default", "messages": [{"role": "user", "content": "Hello!"}], "stream": true}'

Ctrl-C lets running answers end (a second one doesn't). docs/configuration.md lists every key.)";

inline constexpr const char* kRunFooter = R"(
Examples:
  remontoir run model.gguf -p "Write a haiku about clocks."
  remontoir run model.gguf -p "Name a colour." --temperature 0    always the same answer
  echo "Summarise: ..." | remontoir run model.gguf                the prompt from a pipe
  remontoir run model.gguf                                        a chat
  remontoir run -hf OWNER/REPO:Q4_K_M                             pulled first when it isn't here

In a chat, a line that ends in \ goes on in the next one. Ctrl-C stops the answer, Ctrl-D ends the chat.)";

inline constexpr const char* kInspectFooter = R"(
Examples:
  remontoir inspect model.gguf
  remontoir inspect model.gguf --tensors

Reads the header alone, never the weights. Exit code 1 and a message on stderr when the file is broken
or holds a model that this build can't run.)";

inline constexpr const char* kPullFooter = R"(
Examples:
  remontoir pull hf:OWNER/REPO              Q4_K_M if there is one, else Q4_0, Q8_0, or the first
  remontoir pull hf:OWNER/REPO:Q8_0         the one with this quantisation
  remontoir pull hf:OWNER/REPO/FILE.gguf    this file (all parts of a split one)

Goes on where an earlier pull stopped, and checks length and SHA-256 before a file gets its name.
Prints the model's path. Set HF_TOKEN for gated models, HF_ENDPOINT for another hub, REMONTOIR_HOME for
another store than ~/.cache/remontoir.)";

inline constexpr const char* kRemoveFooter = R"(
Examples:
  remontoir rm OWNER/REPO/FILE.gguf
  remontoir rm FILE                     enough when it is the only one whose name starts so)";

inline constexpr const char* kTokenizeFooter = R"(
Examples:
  echo '{"text": "Hello"}' | remontoir tokenize --model model.gguf      [19556]
  echo '{"ids": [19556]}' | remontoir tokenize --model model.gguf       "Hello"

A JSON object a line in, an array of ids or a string a line out. No BOS or EOS is added, whatever the
file says. A file that holds a vocabulary alone will do.)";

inline constexpr const char* kPerplexityFooter = R"(
Examples:
  remontoir perplexity model.gguf text.txt
  remontoir perplexity model.gguf text.txt --window 512 --compute f32

Lower is better; compare only numbers of the same text, window and vocabulary.)";

inline constexpr const char* kEvalLongContextFooter = R"(
Examples:
  remontoir eval longcontext model.gguf --text changelog.txt --compute f32
  remontoir eval longcontext model.gguf --text t.txt --context 32768 --rope-base-scale 4 --json

The text's first tokens are read twice, exactly and in mode custom_sparse, side by side. The
perplexities are those of the last predictions; KL is of the sparse distribution from the exact one,
in nats. --decode computes so many of the last tokens one by one, as in an answer, behind a prompt
that is read sparsely too, or exactly with --exact-prompt. 8-bit activations alone change
predictions: how much, a third reading in float32 shows. Then each layer by itself, and codes hidden
in long prompts. docs/attention.md says what the numbers mean.)";

inline constexpr const char* kEvalLogitsFooter = R"(
Examples:
  remontoir eval logits model.gguf --reference logits.npy --tokens 1,450,7483 --compute f32
  remontoir eval logits model.gguf --reference logits.npy --tokens 1,450,7483 --rms 0.05 --top1 1 --json

The reference is an array [rows, vocabulary] of float16, float32 or float64 as numpy.save writes it: the
logits after each token, or after the last ones. Exit code 1 where a bound is exceeded. docs/eval.md says
what the numbers mean.)";

inline constexpr const char* kPlanFooter = R"(
Examples:
  remontoir plan model.gguf
  remontoir plan model.gguf --context 4096 --sequences-max 2

Reads the header alone. An error says what doesn't fit and which key to lower.)";

inline constexpr const char* kTrainFooter = R"(
Examples:
  remontoir train-predictor arrivals.csv --out predictor.safetensors
  remontoir train-predictor arrivals.jsonl --epochs 16 --seed 7 --selftest

The log has t_us, prompt_tokens, output_tokens and maybe client_cell (0-63) and device (0-3), sorted by
time: CSV with a line of names, or an object a line. The last part of it is held out, and the table says
how all forecasters do there, and where the network loses. docs/predictor.md says more.)";

inline constexpr const char* kCompletionFooter = R"(
Examples:
  source <(remontoir completion bash)          in ~/.bashrc
  source <(remontoir completion zsh)           in ~/.zshrc
  remontoir completion fish | source           in config.fish)";

inline constexpr const char* kBenchFooter = R"(
Examples:
  remontoir bench engine --model model.gguf
  remontoir bench engine --model model.gguf --prompt 512 --depth 16,2048 --batch 8 --rounds 9
  remontoir bench engine --model model.gguf --steps-profile --prompt 512 --depth 512 --batch 8
  remontoir bench kernels --isa avx2
  remontoir bench kernels --filter _product
  remontoir bench kv --model model.gguf
  remontoir bench attention --model model.gguf --quick
  remontoir bench serving --clients 8 --requests 100

Every rate stands beside the ceiling of this machine, measured in the same run. scripts/compare runs
the same rows beside a peer engine.)";

inline constexpr const char* kBenchServingFooter = R"(
Examples:
  remontoir bench serving --clients 8 --requests 100               closed loop: what the server can do
  remontoir bench serving --rate 0.8 --seconds 600 --seed 7        open loop: arrivals come as they come
  remontoir bench serving --pulse 100 --requests 200               minimal prompts, 16 tokens each
  remontoir bench serving --trace arrivals.csv --rate 2            recorded arrivals, stretched
  remontoir bench serving --url http://127.0.0.1:9000 --model m --header "x-slo-ttft-ms: 500" ...

Works against any OpenAI-compatible server. In an open loop every latency counts from the moment at which
the request should have been sent, so a server that stalls can't hide whom it kept waiting. The same seed
draws the same arrivals, lengths and words. docs/load.md says what the numbers mean.)";

inline constexpr const char* kSimulateFooter = R"(
Examples:
  remontoir simulate --stream mmppC60 --policy immediate,adaptive
  remontoir simulate --trace traces/ --stream convC60 --policy legacy,fixed,immediate,adaptive --seeds 8
  remontoir simulate --trace traces/ --stream convC60 --clients 16 --policy legacy,adaptive
  remontoir simulate --trace traces/ --acceptance

The engine, its scheduler and its accounts are the real ones; the machine and the clock are
simulated. The same seed, the same bytes. docs/simulation.md says more.)";

}  // namespace remontoir
