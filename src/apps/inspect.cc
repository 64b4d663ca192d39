// Prints a model file from the outside in: container, metadata, hyperparameters, vocabulary,
// tensors.
#include "apps/inspect.h"

#include <array>
#include <cinttypes>
#include <string>

#include "apps/vocabulary_size.h"
#include "formats/model_file.h"
#include "formats/printable.h"
#include "model/model_info.h"
#include "tokenizer/vocabulary.h"

namespace remontoir {
namespace {

constexpr size_t kNameCharactersMax = 80;

std::string Mebibytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

int64_t Elements(const TensorView& view) { return view.columns() * view.rows(); }

// "[576 x 49152]", innermost first, as the file writes it.
std::string ShapeText(const TensorView& view) {
  std::string text = "[";
  for (int i = 0; i < view.rank; ++i) {
    text += (i == 0 ? "" : " x ") + std::to_string(view.shape[i]);
  }
  return text + "]";
}

void PrintContainer(const ModelFile& file, std::FILE* out) {
  int64_t elements = 0;
  std::array<int, kDTypeCount> counts = {};
  for (const TensorInfo& tensor : file.tensors()) {
    elements += Elements(tensor.view);
    ++counts[static_cast<size_t>(tensor.view.type)];
  }
  std::fprintf(out, "file            %s\n", file.path().c_str());
  std::fprintf(out, "format          %s, %d file%s, %s\n", file.format().c_str(), file.file_count(),
               file.file_count() == 1 ? "" : "s", Mebibytes(file.size_bytes()).c_str());
  std::fprintf(out, "tensors         %zu with %.1f million values:", file.tensors().size(),
               static_cast<double>(elements) / 1e6);
  const char* separator = " ";
  for (int type = 0; type < kDTypeCount; ++type) {
    if (counts[type] == 0) continue;
    std::fprintf(out, "%s%d %s", separator, counts[type],
                 std::string(Info(static_cast<DType>(type)).name).c_str());
    separator = ", ";
  }
  std::fputc('\n', out);
}

void PrintMetadata(const ModelFile& file, std::FILE* out) {
  const std::vector<ModelFile::MetadataLine> lines = file.DescribeMetadata();
  std::fprintf(out, "\nmetadata (%zu)\n", lines.size());
  for (const ModelFile::MetadataLine& line : lines) {
    std::fprintf(out, "  %-42s %-14s %s\n", Printable(line.key, kNameCharactersMax).c_str(),
                 line.type.c_str(), line.value.c_str());
  }
}

void PrintTensors(const ModelFile& file, std::FILE* out) {
  std::fprintf(out, "\ntensors (%zu)\n", file.tensors().size());
  for (const TensorInfo& tensor : file.tensors()) {
    std::fprintf(out, "  %-42s %-8s %-24s %" PRId64 " bytes at %" PRIu64,
                 Printable(tensor.name, kNameCharactersMax).c_str(),
                 std::string(Info(tensor.view.type).name).c_str(), ShapeText(tensor.view).c_str(),
                 tensor.view.size_bytes, tensor.file_offset);
    if (file.file_count() > 1) std::fprintf(out, " of part %d", tensor.file_index + 1);
    std::fputc('\n', out);
  }
}

void PrintShape(const ModelShape& shape, std::FILE* out) {
  const struct {
    const char* name;
    int64_t value;
  } kRows[] = {
      {"layers", shape.layers},
      {"width", shape.width},
      {"heads", shape.heads},
      {"kv heads", shape.kv_heads},
      {"key width", shape.key_width},
      {"value width", shape.value_width},
      {"feed forward", shape.feed_forward_width},
      {"experts", shape.experts},
      {"experts used", shape.experts_used},
      {"expert width", shape.expert_width},
      {"shared expert", shape.shared_expert_width},
      {"window", shape.window},
      {"context", shape.context_trained},
      {"vocabulary", shape.vocabulary_size},
  };
  std::fprintf(out, "\nmodel (%s)\n", Printable(shape.architecture, kNameCharactersMax).c_str());
  for (const auto& row : kRows) {
    if (row.value > 0) std::fprintf(out, "  %-14s%" PRId64 "\n", row.name, row.value);
  }
  std::fprintf(out, "  %-14s%s\n", "output",
               shape.tied_embedding ? "tied embedding" : "own matrix");
}

void PrintToken(const char* name, std::optional<TokenId> token, const Vocabulary& vocabulary,
                std::FILE* out) {
  if (!token) return;
  std::fprintf(out, "  %-14s%d %s\n", name, static_cast<int>(*token),
               Quoted(vocabulary.Spelling(*token)).c_str());
}

void PrintVocabulary(const Vocabulary& vocabulary, std::FILE* out) {
  std::fprintf(out, "\ntokenizer (%s, %s)\n",
               Printable(vocabulary.model(), kNameCharactersMax).c_str(),
               Printable(vocabulary.pre(), kNameCharactersMax).c_str());
  std::fprintf(out, "  %-14s%d\n", "tokens", vocabulary.size());
  PrintToken("begin", vocabulary.bos(), vocabulary, out);
  PrintToken("end", vocabulary.eos(), vocabulary, out);
  PrintToken("end of turn", vocabulary.eot(), vocabulary, out);
  std::fprintf(out, "  %-14s%s\n", "chat template",
               vocabulary.chat_template().empty() ? "none" : "yes");
}

}  // namespace

Status Inspect(const InspectOptions& options, std::FILE* out) {
  REM_ASSIGN_OR_RETURN(const ModelFile file, ModelFile::Open(options.file));
  PrintContainer(file, out);
  PrintMetadata(file, out);
  if (options.tensors) PrintTensors(file, out);

  REM_ASSIGN_OR_RETURN(const ModelInfo info, ReadModelInfo(file));
  PrintShape(info.shape, out);

  REM_ASSIGN_OR_RETURN(const Vocabulary vocabulary, Vocabulary::FromModelFile(file));
  PrintVocabulary(vocabulary, out);
  return CheckVocabularySize(info.shape, vocabulary);
}

}  // namespace remontoir
