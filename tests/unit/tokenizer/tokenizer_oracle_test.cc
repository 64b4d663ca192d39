// Tokenizers whose vocabularies may be given away, against their references.
#include "tests/support/tokenizer_oracle.h"

namespace remontoir {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Vocabularies, TokenizerOracle,
    testing::Values(TokenizerOracleCase{"smollm2", DefaultModelPath()},
                    TokenizerOracleCase{"gpt2", TestData("tok/gpt2.vocab.gguf")},
                    TokenizerOracleCase{"qwen2", TestData("tok/qwen2.vocab.gguf")},
                    TokenizerOracleCase{"grok1", TestData("tok/grok1.vocab.gguf")}),
    OracleName);

}  // namespace
}  // namespace remontoir
