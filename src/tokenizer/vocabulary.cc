// Reading and checking a vocabulary: every inconsistency is an error that names the metadata key.
#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace remontoir {
namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kKindsKey = "tokenizer.ggml.token_type";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";
constexpr std::string_view kModelKey = "tokenizer.ggml.model";
constexpr std::string_view kPreKey = "tokenizer.ggml.pre";
constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

// Pre-tokenizers of models that expect a BOS token although their files don't say so.
constexpr std::array<std::string_view, 9> kPresWithBos = {"llama3",   "llama-v3",  "llama-bpe",
                                                          "falcon3",  "falcon-h1", "pixtral",
                                                          "midm-2.0", "lfm2",      "tekken"};

// Control tokens that end a turn in public models, beside the file's own eos and eot.
constexpr std::array<std::string_view, 15> kEndOfTurnSpellings = {
    "<|im_end|>",    "<|eot_id|>",    "<|eom_id|>",
    "<|end|>",       "<|endoftext|>", "<|end_of_text|>",
    "<end_of_turn>", "<turn|>",       "<EOT>",
    "<|return|>",    "<|call|>",      "<|END_OF_TURN_TOKEN|>",
    "<|role_end|>",  "<|separator|>", "<\uFF5Cend\u2581of\u2581sentence\uFF5C>"};

Status KeyError(std::string_view key, std::string_view what) {
  return InvalidArgument(std::string(key) + ": " + std::string(what));
}

std::string CountMismatch(size_t count, size_t tokens) {
  return "has " + std::to_string(count) + " entries for " + std::to_string(tokens) + " tokens";
}

template <class Value>
Status ReadOptional(const ModelFile& file, std::string_view key,
                    Result<Value> (ModelFile::*get)(std::string_view) const,
                    std::optional<Value>& value) {
  if (!file.Has(key)) return Status::Ok();
  REM_ASSIGN_OR_RETURN(value, (file.*get)(key));
  return Status::Ok();
}

Status ReadOptionalString(const ModelFile& file, std::string_view key, std::string& value) {
  if (!file.Has(key)) return Status::Ok();
  REM_ASSIGN_OR_RETURN(value, file.GetString(key));
  return Status::Ok();
}

std::vector<std::string> Copy(StringArrayView strings) {
  std::vector<std::string> copy;
  copy.reserve(strings.size());
  for (size_t i = 0; i < strings.size(); ++i) copy.emplace_back(strings[i]);
  return copy;
}

}  // namespace

Result<Vocabulary> Vocabulary::FromModelFile(const ModelFile& file) {
  VocabularyData data;
  REM_ASSIGN_OR_RETURN(StringArrayView tokens, file.GetStringArray(kTokensKey));
  data.tokens = Copy(tokens);
  REM_ASSIGN_OR_RETURN(data.model, file.GetString(kModelKey));
  data.pre = "default";
  REM_RETURN_IF_ERROR(ReadOptionalString(file, kPreKey, data.pre));
  REM_RETURN_IF_ERROR(ReadOptionalString(file, kTemplateKey, data.chat_template));
  if (file.Has(kKindsKey)) {
    REM_ASSIGN_OR_RETURN(data.kinds, file.GetIntArray(kKindsKey));
    if (data.kinds.empty()) return KeyError(kKindsKey, CountMismatch(0, data.tokens.size()));
  }
  if (file.Has(kScoresKey)) {
    REM_ASSIGN_OR_RETURN(data.scores, file.GetFloatArray(kScoresKey));
    if (data.scores.empty()) return KeyError(kScoresKey, CountMismatch(0, data.tokens.size()));
  }
  if (file.Has(kMergesKey)) {
    REM_ASSIGN_OR_RETURN(StringArrayView merges, file.GetStringArray(kMergesKey));
    data.merges = Copy(merges);
  }
  const struct {
    std::string_view key;
    std::optional<uint64_t>* id;
  } ids[] = {{"tokenizer.ggml.bos_token_id", &data.bos},
             {"tokenizer.ggml.eos_token_id", &data.eos},
             {"tokenizer.ggml.eot_token_id", &data.eot},
             {"tokenizer.ggml.unknown_token_id", &data.unknown},
             {"tokenizer.ggml.padding_token_id", &data.padding}};
  for (const auto& [key, id] : ids) {
    REM_RETURN_IF_ERROR(ReadOptional(file, key, &ModelFile::GetUint, *id));
  }
  REM_RETURN_IF_ERROR(
      ReadOptional(file, "tokenizer.ggml.add_bos_token", &ModelFile::GetBool, data.add_bos));
  REM_RETURN_IF_ERROR(
      ReadOptional(file, "tokenizer.ggml.add_eos_token", &ModelFile::GetBool, data.add_eos));
  REM_RETURN_IF_ERROR(ReadOptional(file, "tokenizer.ggml.add_space_prefix", &ModelFile::GetBool,
                                   data.add_space_prefix));
  return Create(std::move(data));
}

Result<Vocabulary> Vocabulary::Create(VocabularyData data) {
  if (data.tokens.empty()) return KeyError(kTokensKey, "is empty");
  if (data.tokens.size() > INT32_MAX) return KeyError(kTokensKey, "has too many entries");
  Vocabulary vocabulary(std::move(data));
  REM_RETURN_IF_ERROR(vocabulary.ReadKinds());
  REM_RETURN_IF_ERROR(vocabulary.ReadScores());
  vocabulary.IndexSpellings();
  REM_RETURN_IF_ERROR(vocabulary.ReadSpecialIds());
  REM_RETURN_IF_ERROR(vocabulary.ReadMerges());
  vocabulary.CollectEndOfGeneration();
  return vocabulary;
}

Vocabulary::Vocabulary(VocabularyData data) : data_(std::move(data)) {
  const bool pieces = data_.model == "llama" || data_.model == "gemma4";
  const bool named =
      std::find(kPresWithBos.begin(), kPresWithBos.end(), data_.pre) != kPresWithBos.end();
  add_bos_ = data_.add_bos.value_or(pieces || named);
}

size_t Vocabulary::Checked(TokenId token) const {
  const auto index = static_cast<size_t>(static_cast<uint32_t>(Index(token)));
  REM_CHECK(index < data_.tokens.size(), "token outside of the vocabulary");
  return index;
}

Status Vocabulary::ReadKinds() {
  kinds_.assign(data_.tokens.size(), TokenKind::kNormal);
  if (data_.kinds.empty()) return Status::Ok();
  if (data_.kinds.size() != kinds_.size()) {
    return KeyError(kKindsKey, CountMismatch(data_.kinds.size(), kinds_.size()));
  }
  for (size_t i = 0; i < kinds_.size(); ++i) {
    const int64_t kind = data_.kinds[i];
    if (kind < 0 || kind > 6) {
      return KeyError(kKindsKey, "token " + std::to_string(i) + " has the unknown kind " +
                                     std::to_string(kind));
    }
    if (kind != 0) kinds_[i] = static_cast<TokenKind>(kind);  // 0: undefined, as good as normal
  }
  data_.kinds.clear();
  return Status::Ok();
}

Status Vocabulary::ReadScores() const {
  if (data_.scores.empty()) return Status::Ok();
  if (data_.scores.size() != data_.tokens.size()) {
    return KeyError(kScoresKey, CountMismatch(data_.scores.size(), data_.tokens.size()));
  }
  for (size_t i = 0; i < data_.scores.size(); ++i) {
    if (std::isnan(data_.scores[i])) {
      return KeyError(kScoresKey, "token " + std::to_string(i) + " has no number as its score");
    }
  }
  return Status::Ok();
}

Status Vocabulary::ReadSpecialIds() {
  const struct {
    std::string_view key;
    const std::optional<uint64_t>& id;
    std::optional<TokenId>& token;
  } ids[] = {{"tokenizer.ggml.bos_token_id", data_.bos, bos_},
             {"tokenizer.ggml.eos_token_id", data_.eos, eos_},
             {"tokenizer.ggml.eot_token_id", data_.eot, eot_},
             {"tokenizer.ggml.unknown_token_id", data_.unknown, unknown_},
             {"tokenizer.ggml.padding_token_id", data_.padding, padding_}};
  for (const auto& [key, id, token] : ids) {
    if (!id.has_value()) continue;
    if (*id >= data_.tokens.size()) {
      return KeyError(key, std::to_string(*id) + " is outside of the vocabulary of " +
                               std::to_string(data_.tokens.size()) + " tokens");
    }
    token = TokenId{static_cast<int32_t>(*id)};
  }
  return Status::Ok();
}

Status Vocabulary::ReadMerges() {
  const auto error = [](size_t i, std::string_view what) {
    return KeyError(kMergesKey, "entry " + std::to_string(i) + " " + std::string(what));
  };
  merges_.reserve(data_.merges.size());
  std::string merged;
  for (size_t i = 0; i < data_.merges.size(); ++i) {
    const std::string_view text = data_.merges[i];
    const size_t space = text.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == text.size()) {
      return error(i, "is not two tokens with a space between");
    }
    const std::string_view left = text.substr(0, space);
    const std::string_view right = text.substr(space + 1);
    merged.assign(left).append(right);
    const std::optional<TokenId> left_token = Find(left);
    const std::optional<TokenId> right_token = Find(right);
    const std::optional<TokenId> merged_token = Find(merged);
    if (!left_token || !right_token || !merged_token) {
      return error(i, "names a token that tokenizer.ggml.tokens lacks");
    }
    merges_.push_back({*left_token, *right_token, *merged_token});
  }
  data_.merges = {};
  return Status::Ok();
}

void Vocabulary::IndexSpellings() {
  by_spelling_.reserve(data_.tokens.size());
  for (size_t i = 0; i < data_.tokens.size(); ++i) {
    by_spelling_[data_.tokens[i]] = TokenId{static_cast<int32_t>(i)};
  }
}

void Vocabulary::CollectEndOfGeneration() {
  // A model that ends its answers with <|return|> puts <|end|> between the parts of one.
  const bool has_return = Find("<|return|>").has_value() && Find("<|call|>").has_value();
  for (std::string_view spelling : kEndOfTurnSpellings) {
    const std::optional<TokenId> token = Find(spelling);
    if (!token.has_value() || Kind(*token) != TokenKind::kControl) continue;
    if (has_return && spelling == "<|end|>") continue;
    end_of_generation_.push_back(*token);
  }
  for (const std::optional<TokenId>& token : {eos_, eot_}) {
    if (token.has_value()) end_of_generation_.push_back(*token);
  }
  std::sort(end_of_generation_.begin(), end_of_generation_.end());
  end_of_generation_.erase(std::unique(end_of_generation_.begin(), end_of_generation_.end()),
                           end_of_generation_.end());
}

float Vocabulary::Score(TokenId token) const {
  const size_t index = Checked(token);
  return data_.scores.empty() ? 0.0f : data_.scores[index];
}

std::optional<TokenId> Vocabulary::Find(std::string_view spelling) const {
  const auto found = by_spelling_.find(spelling);
  if (found == by_spelling_.end()) return std::nullopt;
  return found->second;
}

bool Vocabulary::IsEndOfGeneration(TokenId token) const {
  return std::binary_search(end_of_generation_.begin(), end_of_generation_.end(), token);
}

}  // namespace remontoir
