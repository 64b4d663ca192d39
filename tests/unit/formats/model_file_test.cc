// Facts about opening model files: single, split, missing and mixed-up parts.
#include "formats/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "formats/split.h"
#include "tests/support/paths.h"
#include "tests/unit/formats/gguf_builder.h"

namespace remontoir {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A folder of its own that goes when the test ends.
class ModelFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/rem_model_file_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& file) const {
    std::ofstream(Path(name), std::ios::binary) << file;
    return Path(name);
  }
  std::string Copy(const std::string& data, const std::string& name) const {
    std::filesystem::copy_file(TestData(data), Path(name));
    return Path(name);
  }

 private:
  std::string folder_;
};

std::string Part(uint16_t no, uint16_t count, int32_t tensors, const std::string& tensor) {
  return GgufBuilder()
      .Key("split.no", ValueType::kUint16, Bytes(no))
      .Key("split.count", ValueType::kUint16, Bytes(count))
      .Key("split.tensors.count", ValueType::kInt32, Bytes(tensors))
      .Tensor(tensor, {1}, 0, Bytes(float{1.0f} + static_cast<float>(no)))
      .Build();
}

std::string ErrorOf(const std::string& path) {
  const auto model = ModelFile::Open(path);
  return model.ok() ? "it opened" : model.status().message();
}

TEST_F(ModelFiles, ASingleFileOpens) {
  const auto model = ModelFile::Open(TestData("tiny/tiny-llama.f32.gguf"));
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->format(), "GGUF v3");
  EXPECT_EQ(model->file_count(), 1);
  EXPECT_EQ(model->size_bytes(),
            static_cast<int64_t>(std::filesystem::file_size(TestData("tiny/tiny-llama.f32.gguf"))));
  EXPECT_EQ(*model->GetString("general.architecture"), "llama");
  EXPECT_EQ(*model->GetUint("llama.embedding_length"), 64u);
  EXPECT_EQ(model->GetStringArray("tokenizer.ggml.tokens")->size(), 288u);
  EXPECT_TRUE(model->Has("llama.block_count"));
  EXPECT_FALSE(model->Has("llama.block_counts"));
  const TensorInfo* embedding = model->FindTensor("token_embd.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->view.columns(), 64);
  EXPECT_EQ(embedding->view.rows(), 288);
  EXPECT_EQ(model->FindTensor("token_embd.weigh"), nullptr);
  for (const TensorInfo& tensor : model->tensors()) {
    EXPECT_EQ(model->FindTensor(tensor.name), &tensor);
  }
}

TEST_F(ModelFiles, ASplitModelHoldsTheTensorsOfTheWholeOne) {
  const auto whole = ModelFile::Open(TestData("tiny/tiny-llama.f32.gguf"));
  const auto split = ModelFile::Open(TestData("tiny/tiny-llama-split-00001-of-00003.gguf"));
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  ASSERT_TRUE(split.ok()) << split.status().message();
  EXPECT_EQ(split->file_count(), 3);
  ASSERT_EQ(split->tensors().size(), whole->tensors().size());
  for (const TensorInfo& tensor : whole->tensors()) {
    const TensorInfo* same = split->FindTensor(tensor.name);
    ASSERT_NE(same, nullptr) << tensor.name;
    ASSERT_EQ(same->view.shape, tensor.view.shape) << tensor.name;
    ASSERT_EQ(same->view.size_bytes, tensor.view.size_bytes) << tensor.name;
    EXPECT_EQ(
        std::memcmp(same->view.data, tensor.view.data, static_cast<size_t>(tensor.view.size_bytes)),
        0)
        << tensor.name;
    split->DropPages(*same);
    EXPECT_EQ(same->view.data[0], tensor.view.data[0]) << "dropped pages are read again";
  }
  EXPECT_EQ(split->FindTensor("blk.2.ffn_down.weight")->file_index, 2);
  EXPECT_EQ(*split->GetString("general.architecture"), "llama");
}

TEST_F(ModelFiles, AMovedModelKeepsItsViews) {
  auto first = ModelFile::Open(TestData("tiny/tiny-llama.f32.gguf"));
  ASSERT_TRUE(first.ok());
  const TensorInfo* tensor = first->FindTensor("output.weight");
  const ModelFile second = *std::move(first);
  EXPECT_EQ(second.FindTensor("output.weight"), tensor);
  EXPECT_EQ(*second.GetUint("llama.block_count"), 3u);
}

TEST_F(ModelFiles, AMissingPartIsNamed) {
  const std::string first =
      Copy("tiny/tiny-llama-split-00001-of-00003.gguf", "m-00001-of-00003.gguf");
  EXPECT_THAT(ErrorOf(first),
              AllOf(HasSubstr("part 2 of the split model"), HasSubstr("m-00002-of-00003.gguf")));
  Copy("tiny/tiny-llama-split-00002-of-00003.gguf", "m-00002-of-00003.gguf");
  EXPECT_THAT(ErrorOf(first), HasSubstr("m-00003-of-00003.gguf"));
  Copy("tiny/tiny-llama-split-00003-of-00003.gguf", "m-00003-of-00003.gguf");
  EXPECT_EQ(ErrorOf(first), "it opened");
}

TEST_F(ModelFiles, ARenamedFirstPartSaysWhatItsPartsShouldBeCalled) {
  const std::string path = Copy("tiny/tiny-llama-split-00001-of-00003.gguf", "model.gguf");
  EXPECT_THAT(ErrorOf(path),
              AllOf(HasSubstr("split into 3 files"), HasSubstr("-00001-of-00003.gguf"),
                    HasSubstr("-00002-of-00003.gguf")));
}

TEST_F(ModelFiles, ALaterPartPointsToTheFirst) {
  const std::string path = TestData("tiny/tiny-llama-split-00002-of-00003.gguf");
  EXPECT_THAT(ErrorOf(path), AllOf(HasSubstr("split.no"), HasSubstr("part 2 of 3"),
                                   HasSubstr("-00001-of-00003.gguf")));
}

TEST_F(ModelFiles, PartsThatDoNotBelongTogetherAreRefused) {
  struct Case {
    std::string second;
    std::string named;
  };
  const std::string first = Write("m-00001-of-00002.gguf", Part(0, 2, 2, "a"));
  for (const Case& c : std::vector<Case>{
           {Part(1, 2, 2, "b"), "it opened"},
           {Part(0, 2, 2, "b"), "split.no"},
           {Part(1, 3, 2, "b"), "split.count"},
           {Part(1, 2, 2, "a"), "duplicate tensor name 'a'"},
           {GgufBuilder().Tensor("b", {1}, 0, Bytes(1.0f)).Build(), "split.count"},
           {"GGUX", "magic"},
       }) {
    Write("m-00002-of-00002.gguf", c.second);
    EXPECT_THAT(ErrorOf(first), HasSubstr(c.named));
  }
}

TEST_F(ModelFiles, TheNumberOfTensorsIsChecked) {
  const std::string first = Write("m-00001-of-00002.gguf", Part(0, 2, 7, "a"));
  Write("m-00002-of-00002.gguf", Part(1, 2, 7, "b"));
  EXPECT_THAT(ErrorOf(first), HasSubstr("split.tensors.count: 7, but the files hold 2"));
}

TEST_F(ModelFiles, SplitKeysOutOfRangeAreNamed) {
  EXPECT_THAT(ErrorOf(Write("m.gguf", Part(3, 3, 1, "a"))), HasSubstr("split.no: 3"));
  EXPECT_THAT(ErrorOf(Write("m.gguf", Part(0, 65535, 1, "a"))), HasSubstr("split.count: 65535"));
  EXPECT_EQ(ErrorOf(Write("m.gguf", Part(0, 1, 1, "a"))), "it opened");
  EXPECT_EQ(ErrorOf(Write("m.gguf", Part(0, 0, 1, "a"))), "it opened");
}

TEST_F(ModelFiles, WhatIsNoFileIsAnError) {
  EXPECT_THAT(ErrorOf(Path("absent.gguf")), HasSubstr("absent.gguf"));
  EXPECT_EQ(ModelFile::Open(Path("absent.gguf")).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(ErrorOf(Path(".")), HasSubstr("not a regular file"));
}

TEST(Split, NamesFollowThePattern) {
  EXPECT_EQ(SplitSuffix(0, 3), "-00001-of-00003.gguf");
  EXPECT_EQ(SplitSuffix(122, 1024), "-00123-of-01024.gguf");
  EXPECT_EQ(*SplitPartPath("dir/m-00001-of-00003.gguf", SplitKeys{0, 3, {}}, 2),
            "dir/m-00003-of-00003.gguf");
  EXPECT_FALSE(SplitPartPath("dir/m-00001-of-00004.gguf", SplitKeys{0, 3, {}}, 2).ok());
}

// --- By the header

// Two tensors of 64 values and the data of none.
std::string HeaderWithoutData() {
  std::string file = GgufBuilder()
                         .Key("general.name", ValueType::kString, StringBytes("a model"))
                         .TensorAt("a", {64}, 0, 0)
                         .TensorAt("b", {32, 2}, 0, 256)
                         .Build();
  return file;
}

TEST_F(ModelFiles, AHeaderOpensWithoutItsData) {
  const std::string path = Write("a.gguf", HeaderWithoutData());
  EXPECT_THAT(ErrorOf(path), HasSubstr("reach past the end of the file"));
  const auto model = ModelFile::OpenHeader(path);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->missing_bytes(), 512);
  EXPECT_EQ(*model->GetString("general.name"), "a model");
  const TensorInfo* tensor = model->FindTensor("b");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->view.size_bytes, 256);
  EXPECT_EQ(tensor->view.rows(), 2);
  EXPECT_EQ(tensor->view.data, nullptr) << "nobody may read what isn't there";
}

TEST_F(ModelFiles, AHeaderSaysHowMuchDataIsMissing) {
  const std::string whole = HeaderWithoutData() + std::string(512, '\1');
  for (const int64_t missing : {0, 1, 300}) {
    const std::string path = Write("a.gguf", whole.substr(0, whole.size() - missing));
    const auto model = ModelFile::OpenHeader(path);
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_EQ(model->missing_bytes(), missing);
  }
  EXPECT_EQ(ModelFile::Open(Write("a.gguf", whole))->missing_bytes(), 0);
}

TEST_F(ModelFiles, HeadersOfASplitModelJoin) {
  for (const uint16_t part : {0, 1}) {
    const std::string file = Part(part, 2, 2, part == 0 ? "a" : "b");
    Write(part == 0 ? "m-00001-of-00002.gguf" : "m-00002-of-00002.gguf",
          file.substr(0, file.size() - 32));
  }
  const auto model = ModelFile::OpenHeader(Path("m-00001-of-00002.gguf"));
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->missing_bytes(), 8);
  EXPECT_EQ(model->FindTensor("b")->file_index, 1);
}

TEST_F(ModelFiles, AHeaderWhoseOffsetsAreWrongIsRefused) {
  const uint64_t far = (uint64_t{1} << 63) - 64;
  const struct {
    GgufBuilder file;
    const char* says;
  } kCases[] = {
      {GgufBuilder().TensorAt("a", {64}, 0, far), "tensor 'a': offset 9223372036854775744"},
      {GgufBuilder().TensorAt("a", {64}, 0, ~uint64_t{31}), "end past what 63 bits can count"},
      {GgufBuilder().TensorAt("a", {64}, 0, 7), "not a multiple of the alignment"},
      {GgufBuilder().TensorAt("a", {64}, 0, 0).TensorAt("b", {64}, 0, 32), "overlaps"},
      {GgufBuilder().TensorAt("a", {int64_t{1} << 62, 64}, 0, 0), "overflows"},
  };
  for (const auto& c : kCases) {
    const auto model = ModelFile::OpenHeader(Write("a.gguf", c.file.Build()));
    EXPECT_THAT(model.status().message(), HasSubstr(c.says));
  }
  // The tables end at byte 137; a header that ends before is none.
  const std::string file = HeaderWithoutData();
  for (size_t size = 0; size < 137; size += 8) {
    EXPECT_FALSE(ModelFile::OpenHeader(Write("a.gguf", file.substr(0, size))).ok()) << size;
  }
}

}  // namespace
}  // namespace remontoir
