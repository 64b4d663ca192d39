// The one fact that a model's shape and its vocabulary have to agree on.
#pragma once

#include "base/status.h"
#include "model/model_shape.h"
#include "tokenizer/vocabulary.h"

namespace remontoir {

// An error unless the embedding has a row for every token, and no more.
Status CheckVocabularySize(const ModelShape& shape, const Vocabulary& vocabulary);

}  // namespace remontoir
