// Tokenizers whose vocabularies may not be given away, against their references:
// tests/data/README.md says where the files come from.
#include "tests/support/tokenizer_oracle.h"

namespace remontoir {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Vocabularies, TokenizerOracle,
    testing::Values(TokenizerOracleCase{"llama3", StoredModelPath("ggml-vocab-llama-bpe.gguf")},
                    TokenizerOracleCase{"llama2-spm", StoredModelPath("ggml-vocab-llama-spm.gguf")},
                    TokenizerOracleCase{"gemma3", StoredModelPath("gemma-3-270m-q4_k_m.gguf")}),
    OracleName);

}  // namespace
}  // namespace remontoir
