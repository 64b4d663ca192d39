// Facts about files whose experts contradict themselves: each gives an error that names the tensor
// or key and what was expected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "model/model_info.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/formats/gguf_builder.h"

namespace remontoir {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ8 = 8;
constexpr uint32_t kQ4K = 12;

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  uint32_t type = kF32;
};

struct Key {
  std::string name;
  ValueType type = ValueType::kUint32;
  std::string bytes;
};

// A header of two layers of four experts, two of which are used, to spoil.
struct ExpertFile {
  std::vector<Key> keys;
  std::vector<Tensor> tensors;

  ExpertFile() {
    const std::pair<const char*, uint32_t> numbers[] = {
        {"block_count", 2},      {"embedding_length", 64},    {"feed_forward_length", 96},
        {"context_length", 128}, {"attention.head_count", 4}, {"attention.head_count_kv", 2},
        {"expert_count", 4},     {"expert_used_count", 2}};
    keys.push_back({"general.architecture", ValueType::kString, StringBytes("llama")});
    for (const auto& [name, value] : numbers) SetNumber(name, value);
    keys.push_back({"llama.attention.layer_norm_rms_epsilon", ValueType::kFloat32, Bytes(1e-5F)});
    tensors = {{"token_embd.weight", {64, 32}}, {"output_norm.weight", {64}}};
    for (const std::string layer : {"blk.0.", "blk.1."}) {
      tensors.insert(tensors.end(), {{layer + "attn_norm.weight", {64}},
                                     {layer + "attn_q.weight", {64, 64}},
                                     {layer + "attn_k.weight", {64, 32}},
                                     {layer + "attn_v.weight", {64, 32}},
                                     {layer + "attn_output.weight", {64, 64}},
                                     {layer + "ffn_norm.weight", {64}},
                                     {layer + "ffn_gate_inp.weight", {64, 4}},
                                     {layer + "ffn_gate_exps.weight", {64, 96, 4}, kQ8},
                                     {layer + "ffn_up_exps.weight", {64, 96, 4}, kQ8},
                                     {layer + "ffn_down_exps.weight", {96, 64, 4}, kQ8}});
    }
  }

  void SetNumber(const std::string& name, uint32_t value) {
    Set(name, ValueType::kUint32, Bytes(value));
  }
  void Set(const std::string& name, ValueType type, const std::string& bytes) {
    RemoveKey(name);
    keys.push_back({"llama." + name, type, bytes});
  }
  void RemoveKey(const std::string& name) {
    std::erase_if(keys, [&](const Key& key) { return key.name == "llama." + name; });
  }
  Tensor& At(const std::string& name) { return *std::ranges::find(tensors, name, &Tensor::name); }
  void Remove(const std::string& name) {
    std::erase_if(tensors, [&](const Tensor& tensor) { return tensor.name == name; });
  }

  std::string Build() const {
    GgufBuilder file;
    for (const Key& key : keys) file.Key(key.name, key.type, key.bytes);
    uint64_t offset = 0;
    for (const Tensor& tensor : tensors) {
      file.TensorAt(tensor.name, tensor.shape, tensor.type, offset);
      offset += uint64_t{1} << 20;  // more than any of them takes
    }
    return file.Build();
  }
};

Status Read(const ExpertFile& file) {
  const TemporaryFolder folder;
  folder.Write("model.gguf", file.Build());
  const Result<ModelFile> opened = ModelFile::OpenHeader(folder / "model.gguf");
  if (!opened.ok()) return opened.status();
  return ReadModelInfo(*opened).status();
}

TEST(ExpertFiles, ThatAreWholeAreRead) {
  const Status status = Read(ExpertFile());
  EXPECT_TRUE(status.ok()) << status.message();
}

struct Contradiction {
  const char* what;
  std::function<void(ExpertFile& file)> spoil;
  std::vector<std::string> words;  // all of them in the error
};

const Contradiction kContradictions[] = {
    {"fewer router rows than experts",
     [](ExpertFile& f) {
       f.At("blk.1.ffn_gate_inp.weight").shape = {64, 3};
     },
     {"blk.1.ffn_gate_inp.weight", "[64, 3]", "[64, 4]"}},
    {"a router across",
     [](ExpertFile& f) {
       f.At("blk.0.ffn_gate_inp.weight").shape = {4, 64};
     },
     {"blk.0.ffn_gate_inp.weight", "[4, 64]", "[64, 4]"}},
    {"fewer gate matrices than experts",
     [](ExpertFile& f) {
       f.At("blk.0.ffn_gate_exps.weight").shape = {64, 96, 3};
     },
     {"blk.0.ffn_gate_exps.weight", "[64, 96, 3]", "[64, 96, 4]"}},
    {"more up matrices than experts",
     [](ExpertFile& f) {
       f.At("blk.1.ffn_up_exps.weight").shape = {64, 96, 5};
     },
     {"blk.1.ffn_up_exps.weight", "[64, 96, 5]", "[64, 96, 4]"}},
    {"down matrices across",
     [](ExpertFile& f) {
       f.At("blk.0.ffn_down_exps.weight").shape = {64, 96, 4};
     },
     {"blk.0.ffn_down_exps.weight", "[64, 96, 4]", "[96, 64, 4]"}},
    {"a matrix in place of one an expert",
     [](ExpertFile& f) {
       f.At("blk.0.ffn_up_exps.weight").shape = {64, 96};
     },
     {"blk.0.ffn_up_exps.weight", "[64, 96]", "[64, 96, 4]"}},
    {"four dimensions",
     [](ExpertFile& f) {
       f.At("blk.0.ffn_up_exps.weight").shape = {64, 96, 2, 2};
     },
     {"blk.0.ffn_up_exps.weight", "[64, 96, 2, 2]", "[64, 96, 4]"}},
    {"another width than the key's",
     [](ExpertFile& f) { f.SetNumber("expert_feed_forward_length", 128); },
     {"blk.0.ffn_gate_exps.weight", "[64, 96, 4]", "[64, 128, 4]"}},
    {"more experts by the key",
     [](ExpertFile& f) { f.SetNumber("expert_count", 8); },
     {"blk.0.ffn_gate_inp.weight", "[64, 4]", "[64, 8]"}},
    {"no gate matrices",
     [](ExpertFile& f) { f.Remove("blk.1.ffn_gate_exps.weight"); },
     {"blk.1.ffn_gate_exps.weight", "missing"}},
    {"no router",
     [](ExpertFile& f) { f.Remove("blk.0.ffn_gate_inp.weight"); },
     {"blk.0.ffn_gate_inp.weight", "missing"}},
    {"no down matrices in one layer",
     [](ExpertFile& f) { f.Remove("blk.1.ffn_down_exps.weight"); },
     {"blk.1.ffn_down_exps.weight", "missing"}},
    {"experts of a dense model",
     [](ExpertFile& f) { f.SetNumber("expert_count", 0); },
     {"blk.0.ffn_gate_inp.weight", "expert_count = 0"}},
    {"experts that no key counts",
     [](ExpertFile& f) { f.RemoveKey("expert_count"); },
     {"blk.0.ffn_gate_inp.weight", "expert_count = 0"}},
    {"experts beside all that a dense model has",
     [](ExpertFile& f) {
       f.SetNumber("expert_count", 0);
       for (const std::string layer : {"blk.0.", "blk.1."}) {
         f.tensors.push_back({layer + "ffn_gate.weight", {64, 96}});
         f.tensors.push_back({layer + "ffn_up.weight", {64, 96}});
         f.tensors.push_back({layer + "ffn_down.weight", {96, 64}});
       }
     },
     {"blk.0.ffn_gate_inp.weight", "expert_count = 0"}},
    {"a dense block beside experts",
     [](ExpertFile& f) {
       f.tensors.push_back({"blk.1.ffn_gate.weight", {64, 96}});
     },
     {"blk.1.ffn_gate.weight", "expert_count = 4"}},
    {"a tensor an expert, as very old files have them",
     [](ExpertFile& f) {
       f.tensors.push_back({"blk.0.ffn_gate.3.weight", {64, 96}});
     },
     {"blk.0.ffn_gate.3.weight", "has no place"}},
    {"a layer too many",
     [](ExpertFile& f) {
       f.tensors.push_back({"blk.2.ffn_up_exps.weight", {64, 96, 4}});
     },
     {"blk.2.ffn_up_exps.weight", "2 layers"}},
    {"rows that are no whole blocks",
     [](ExpertFile& f) { f.At("blk.0.ffn_down_exps.weight").type = kQ4K; },
     {"blk.0.ffn_down_exps.weight", "96", "256"}},
    {"none used",
     [](ExpertFile& f) { f.SetNumber("expert_used_count", 0); },
     {"llama.expert_used_count = 0", "1 ... 4"}},
    {"more used than there are",
     [](ExpertFile& f) { f.SetNumber("expert_used_count", 5); },
     {"llama.expert_used_count = 5", "1 ... 4"}},
    {"no word on how many are used",
     [](ExpertFile& f) { f.RemoveKey("expert_used_count"); },
     {"llama.expert_used_count"}},
    {"experts without end",
     [](ExpertFile& f) { f.SetNumber("expert_count", 1 << 30); },
     {"llama.expert_count = 1073741824", "4096"}},
    {"a width of nothing",
     [](ExpertFile& f) { f.SetNumber("expert_feed_forward_length", 0); },
     {"llama.expert_feed_forward_length = 0"}},
    {"a count in words",
     [](ExpertFile& f) { f.Set("expert_count", ValueType::kString, StringBytes("four")); },
     {"llama.expert_count"}},
    {"fewer than none",
     [](ExpertFile& f) { f.Set("expert_count", ValueType::kInt32, Bytes(int32_t{-4})); },
     {"llama.expert_count"}},
};

TEST(ExpertFiles, ThatContradictThemselvesAreRefusedByName) {
  for (const Contradiction& contradiction : kContradictions) {
    SCOPED_TRACE(contradiction.what);
    ExpertFile file;
    contradiction.spoil(file);
    const Status status = Read(file);
    EXPECT_FALSE(status.ok());
    for (const std::string& word : contradiction.words) {
      EXPECT_THAT(status.message(), HasSubstr(word));
    }
  }
}

}  // namespace
}  // namespace remontoir
