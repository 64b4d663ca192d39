// The table of pre-tokenizers and their patterns' compilation and matching by PCRE2.
#include "tokenizer/pretokenizer.h"

#include <array>
#include <span>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/check.h"

namespace remontoir {
namespace {

// Patterns as the models' own tokenizer.json files give them; \s and \S are widened when compiled.
constexpr char kGpt2[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr char kDigit[] = R"(\p{N})";
constexpr char kThreeDigits[] = R"(\p{N}{1,3})";
constexpr char kLlama3[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen2[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen35[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
                           R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kO200k[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kTekken[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kBailing[] =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr char kSeedCoder[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kBloom[] = " ?[^(\\s|.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C)]+";
constexpr char kFalconPunctuation[] = R"([\p{P}\$\+<=>\^~\|`]+)";
constexpr char kThreeAsciiDigits[] = "[0-9][0-9][0-9]";
constexpr char kLineEnd[] = R"([\r\n])";
constexpr char kCjkAndHangul[] = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr char kCjkAndKana[] = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr char kDeepSeekWord[] =
    "\\s?[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-"
    "\u02AF"
    "\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1"
    "\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD"
    "\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D"
    "\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4"
    "\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC"
    "\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128"
    "\u212A-\u212D\u212F-\u2134\u2139\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B"
    "\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787"
    "\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A"
    "\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-\U000104FB\U00010C80-\U00010CB2"
    "\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-\U0001E943]+";
constexpr char kDeepSeekPunctuation[] =
    "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+";
constexpr char kSpaceAtEnd[] = R"(\s+$)";
constexpr char kDigits[] = R"(\p{N}+)";
constexpr char kSpacedLetters[] = R"(\s?\p{L}+)";
constexpr char kSpacedPunctuation[] = R"(\s?\p{P}+)";
constexpr char kDeepSeek3[] =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Row {
  std::string_view names;  // separated by blanks
  std::array<const char*, 6> stages;
  bool normalizes = false;
  bool prefers_whole_pieces = false;
};

constexpr Row kTable[] = {
    {.names =
         "default gpt-2 gpt2 phi-2 mpt olmo jais trillion granite-docling gigachat mellum "
         "modern-bert roberta-bpe jina-v1-en jina-v2-code jina-v2-es jina-v2-de jina-es jina-de",
     .stages = {kGpt2}},
    {.names = "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
     .stages = {kDigit, kGpt2}},
    {.names = "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 glm4 glm5",
     .stages = {kLlama3},
     .prefers_whole_pieces = true},
    {.names = "dbrx smaug-bpe chatglm-bpe", .stages = {kLlama3}},
    {.names = "qwen2 f2llmv2", .stages = {kQwen2}, .normalizes = true},
    {.names = "deepseek-r1-qwen kormo stablelm2 hunyuan grok-2 solar-open megrez",
     .stages = {kQwen2}},
    {.names = "qwen35", .stages = {kQwen35}, .normalizes = true},
    {.names = "gpt-4o llama4 kanana2 minimax-m2", .stages = {kO200k}},
    {.names = "tekken", .stages = {kTekken}, .prefers_whole_pieces = true},
    {.names = "deepseek-llm",
     .stages = {kLineEnd, kDeepSeekWord, kDeepSeekPunctuation, kSpaceAtEnd, kCjkAndHangul,
                kDigits}},
    {.names = "deepseek-coder",
     .stages = {kLineEnd, kSpacedLetters, kSpacedPunctuation, kCjkAndHangul, kDigit}},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm",
     .stages = {kThreeDigits, kCjkAndKana, kDeepSeek3}},
    {.names = "falcon", .stages = {kFalconPunctuation, kGpt2, kThreeAsciiDigits}},
    {.names = "bloom poro-chat gpt3-finnish", .stages = {kBloom}},
    {.names = "viking", .stages = {kBloom, kDigit}},
    {.names = "bailingmoe bailingmoe2 llada-moe", .stages = {kBailing}},
    {.names = "seed-coder", .stages = {kSeedCoder}},
};

const Row* FindRow(std::string_view name) {
  for (const Row& row : kTable) {
    std::string_view rest = row.names;
    while (!rest.empty()) {
      const std::string_view candidate = rest.substr(0, rest.find(' '));
      if (candidate == name) return &row;
      rest.remove_prefix(std::min(rest.size(), candidate.size() + 1));
    }
  }
  return nullptr;
}

// Unicode's White_Space. PCRE2's own \s also has U+180E, which is no space since Unicode 6.3.
constexpr std::string_view kSpaces = R"(\p{Z}\t-\r\x{85})";

std::string WithUnicodeSpaces(std::string_view pattern) {
  std::string widened;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '\\') {
      if (c == '[') in_class = true;
      if (c == ']') in_class = false;
      widened.push_back(c);
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's') {
      widened.append(in_class ? "" : "[").append(kSpaces).append(in_class ? "" : "]");
    } else if (escaped == 'S') {
      REM_CHECK(!in_class, "\\S inside of a class can't be widened");
      widened.append("[^").append(kSpaces).append("]");
    } else {
      widened.push_back(c);
      widened.push_back(escaped);
    }
  }
  return widened;
}

}  // namespace

// A compiled pattern.
class Pretokenizer::Pattern {
 public:
  explicit Pattern(const char* text) {
    const std::string widened = WithUnicodeSpaces(text);
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(widened.data()), widened.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY, &error, &offset, nullptr);
    REM_CHECK(code_ != nullptr, "a pattern of the table does not compile");
    // Without JIT (a platform that lacks it) matching is slower and the same.
    pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);
  }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  ~Pattern() { pcre2_code_free(code_); }

  void Split(std::span<const std::string_view> texts, std::vector<std::string_view>& pieces) const {
    pcre2_match_data* match = pcre2_match_data_create_from_pattern(code_, nullptr);
    REM_CHECK(match != nullptr, "out of memory");
    for (std::string_view text : texts) SplitOne(text, match, pieces);
    pcre2_match_data_free(match);
  }

 private:
  void SplitOne(std::string_view text, pcre2_match_data* match,
                std::vector<std::string_view>& pieces) const {
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match);
    size_t done = 0;
    while (done < text.size()) {
      const int matched = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                      done, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match, nullptr);
      // No match, or a limit of the library was met: the rest is one piece.
      if (matched < 0) break;
      if (ends[0] > done) pieces.push_back(text.substr(done, ends[0] - done));
      pieces.push_back(text.substr(ends[0], ends[1] - ends[0]));
      done = ends[1];
    }
    if (done < text.size()) pieces.push_back(text.substr(done));
  }

  pcre2_code* code_;
};

Pretokenizer::Pretokenizer() = default;
Pretokenizer::Pretokenizer(Pretokenizer&&) noexcept = default;
Pretokenizer& Pretokenizer::operator=(Pretokenizer&&) noexcept = default;
Pretokenizer::~Pretokenizer() = default;

Result<Pretokenizer> Pretokenizer::Create(std::string_view name) {
  const Row* row = FindRow(name);
  if (row == nullptr) {
    return Unsupported("tokenizer.ggml.pre: this build has no pre-tokenizer named \"" +
                       std::string(name) + "\"");
  }
  Pretokenizer pretokenizer;
  for (const char* stage : row->stages) {
    if (stage != nullptr) pretokenizer.stages_.push_back(std::make_unique<Pattern>(stage));
  }
  pretokenizer.normalizes_ = row->normalizes;
  pretokenizer.prefers_whole_pieces_ = row->prefers_whole_pieces;
  return pretokenizer;
}

void Pretokenizer::Split(std::string_view text, std::vector<std::string_view>& pieces) const {
  std::vector<std::string_view> current = {text};
  std::vector<std::string_view> cut;
  for (const std::unique_ptr<Pattern>& stage : stages_) {
    cut.clear();
    stage->Split(current, cut);
    current.swap(cut);
  }
  pieces.insert(pieces.end(), current.begin(), current.end());
}

}  // namespace remontoir
