// A vocabulary of the 256 bytes, two control tokens and a pair that no test writes, for tests that
// need to see every token.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "text/utf8.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/tokenizer.h"

namespace remontoir {

inline constexpr TokenId kTinyEnd{256};    // "<|end|>", ends a generation
inline constexpr TokenId kTinyStart{257};  // "<|start|>"
inline constexpr int32_t kTinyVocabularySize = 259;

inline TokenId TinyToken(char byte) { return TokenId{static_cast<unsigned char>(byte)}; }

inline Tokenizer MakeTinyTokenizer(bool add_bos = false) {
  VocabularyData data;
  data.model = "gpt2";
  data.pre = "gpt-2";
  for (int byte = 0; byte < 256; ++byte) {
    AppendUtf8(ByteAlphabetCharacter(static_cast<uint8_t>(byte)), data.tokens.emplace_back());
    data.kinds.push_back(static_cast<int64_t>(TokenKind::kNormal));
  }
  for (const char* control : {"<|end|>", "<|start|>"}) {
    data.tokens.emplace_back(control);
    data.kinds.push_back(static_cast<int64_t>(TokenKind::kControl));
  }
  // The format asks for a merge: of the bytes 0 and 1.
  data.tokens.push_back(data.tokens[0] + data.tokens[1]);
  data.kinds.push_back(static_cast<int64_t>(TokenKind::kNormal));
  data.merges.push_back(data.tokens[0] + " " + data.tokens[1]);
  data.eos = static_cast<uint64_t>(Index(kTinyEnd));
  data.bos = static_cast<uint64_t>(Index(kTinyStart));
  data.add_bos = add_bos;
  auto vocabulary = Vocabulary::Create(std::move(data));
  EXPECT_TRUE(vocabulary.ok()) << vocabulary.status().message();
  auto tokenizer = Tokenizer::Create(std::move(vocabulary).value());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

}  // namespace remontoir
