// Compares the embedding's rows with the tokens.
#include "apps/vocabulary_size.h"

#include <string>

namespace remontoir {

Status CheckVocabularySize(const ModelShape& shape, const Vocabulary& vocabulary) {
  if (vocabulary.size() == shape.vocabulary_size) return Status::Ok();
  return InvalidArgument("tokenizer.ggml.tokens lists " + std::to_string(vocabulary.size()) +
                         " tokens, but token_embd.weight has " +
                         std::to_string(shape.vocabulary_size) + " rows");
}

}  // namespace remontoir
