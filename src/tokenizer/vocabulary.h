// The tokens of a model as its file lists them, checked: spellings, kinds, merges, special tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "formats/model_file.h"
#include "sampling/token_id.h"

namespace remontoir {

// The values are GGUF's.
enum class TokenKind : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // special: parsed from text only where the caller says so
  kUserDefined = 4,  // always found in text, whatever the merges say
  kUnused = 5,
  kByte = 6,  // spelled <0xHH>: one byte
};

// Plain data as read from a file, before any check. Ids are those of GGUF's
// tokenizer.ggml.*_token_id.
struct VocabularyData {
  std::string model;  // tokenizer.ggml.model: gpt2, llama, t5, ...
  std::string pre;  // tokenizer.ggml.pre: the pre-tokenizer's name; "default" if the file has none
  std::vector<std::string> tokens;
  std::vector<int64_t> kinds;       // empty: all normal
  std::vector<float> scores;        // empty: the file has none
  std::vector<std::string> merges;  // "left right", best first
  std::optional<uint64_t> bos, eos, eot, unknown, padding;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  std::string chat_template;  // empty: the file has none
};

struct Merge {
  TokenId left;
  TokenId right;
  TokenId merged;
};

// Immutable. A token is in range [0, size()).
class Vocabulary {
 public:
  // Errors name the metadata key that is missing, ill-typed or inconsistent.
  static Result<Vocabulary> FromModelFile(const ModelFile& file);
  static Result<Vocabulary> Create(VocabularyData data);

  Vocabulary(Vocabulary&&) = default;  // not copyable: the index looks into the spellings
  Vocabulary& operator=(Vocabulary&&) = default;

  int32_t size() const { return static_cast<int32_t>(data_.tokens.size()); }
  const std::string& Spelling(TokenId token) const { return data_.tokens[Checked(token)]; }
  TokenKind Kind(TokenId token) const { return kinds_[Checked(token)]; }
  // 0 where the file has no scores.
  float Score(TokenId token) const;
  bool has_scores() const { return !data_.scores.empty(); }
  // The last token of that spelling.
  std::optional<TokenId> Find(std::string_view spelling) const;

  const std::vector<Merge>& merges() const { return merges_; }  // best first
  const std::string& model() const { return data_.model; }
  const std::string& pre() const { return data_.pre; }
  const std::string& chat_template() const { return data_.chat_template; }

  std::optional<TokenId> bos() const { return bos_; }
  std::optional<TokenId> eos() const { return eos_; }
  std::optional<TokenId> eot() const { return eot_; }
  std::optional<TokenId> unknown() const { return unknown_; }
  std::optional<TokenId> padding() const { return padding_; }
  // What the file says, else what models of this kind expect.
  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return data_.add_eos.value_or(false); }
  bool add_space_prefix() const { return data_.add_space_prefix.value_or(true); }

  // True for the tokens after which a model has said all: eos, eot, and control tokens spelled like
  // the well-known ends of a turn.
  bool IsEndOfGeneration(TokenId token) const;
  const std::vector<TokenId>& end_of_generation() const { return end_of_generation_; }

 private:
  explicit Vocabulary(VocabularyData data);
  size_t Checked(TokenId token) const;
  Status ReadKinds();
  Status ReadScores() const;
  Status ReadSpecialIds();
  Status ReadMerges();
  void IndexSpellings();
  void CollectEndOfGeneration();

  VocabularyData data_;
  std::vector<TokenKind> kinds_;
  std::vector<Merge> merges_;
  std::unordered_map<std::string_view, TokenId> by_spelling_;  // views into data_.tokens
  std::optional<TokenId> bos_, eos_, eot_, unknown_, padding_;
  bool add_bos_ = false;
  std::vector<TokenId> end_of_generation_;  // sorted
};

}  // namespace remontoir
