// Facts about reading one GGUF file: what is accepted, and which error names which fault.
#include "formats/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/unit/formats/gguf_builder.h"

namespace remontoir {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint32_t kGgmlF32 = 0;
constexpr uint32_t kGgmlQ4_0 = 2;

std::string Zeros(size_t size) { return std::string(size, '\0'); }

std::string ErrorOf(const std::string& file) {
  const auto contents = ReadGguf(AsBytes(file));
  return contents.ok() ? "it opened" : contents.status().message();
}

TEST(Gguf, VersionsTwoAndThreeReadTheSame) {
  for (const uint32_t version : {2u, 3u}) {
    GgufBuilder builder;
    builder.version = version;
    const std::string file = builder.Key("a.key", ValueType::kUint32, Bytes(uint32_t{7}))
                                 .Tensor("first", {4, 2}, kGgmlF32, Bytes(1.5f) + Zeros(28))
                                 .Tensor("second", {64}, kGgmlQ4_0, Zeros(36))
                                 .Build();
    const auto contents = ReadGguf(AsBytes(file));
    ASSERT_TRUE(contents.ok()) << contents.status().message();
    EXPECT_EQ(contents->version, version);
    EXPECT_EQ(*contents->metadata.GetUint("a.key"), 7u);
    ASSERT_EQ(contents->tensors.size(), 2u);
    const TensorInfo& first = contents->tensors[0];
    EXPECT_EQ(first.name, "first");
    EXPECT_EQ(first.view.type, DType::kF32);
    EXPECT_EQ(first.view.rank, 2);
    EXPECT_EQ(first.view.columns(), 4);
    EXPECT_EQ(first.view.rows(), 2);
    EXPECT_EQ(first.view.size_bytes, 32);
    EXPECT_EQ(first.view.data, AsBytes(file).data() + first.file_offset);
    float value = 0;
    std::memcpy(&value, first.view.data, sizeof(value));
    EXPECT_EQ(value, 1.5f);
    EXPECT_EQ(contents->tensors[1].view.size_bytes, 36);
    EXPECT_EQ(contents->tensors[1].file_offset, first.file_offset + 32);
  }
}

TEST(Gguf, AFileMayHaveNoTensorsAndNoPadding) {
  const std::string file = "GGUF" + Bytes(uint32_t{3}) + Bytes(uint64_t{0}) + Bytes(uint64_t{0});
  const auto contents = ReadGguf(AsBytes(file));
  ASSERT_TRUE(contents.ok()) << contents.status().message();
  EXPECT_TRUE(contents->tensors.empty());
}

TEST(Gguf, TheFilesOwnAlignmentPlacesItsTensors) {
  GgufBuilder builder;
  builder.alignment = 256;
  const std::string file =
      builder.Key("general.alignment", ValueType::kUint32, Bytes(uint32_t{256}))
          .Tensor("first", {1}, kGgmlF32, Zeros(4))
          .Tensor("second", {1}, kGgmlF32, Zeros(4))
          .Build();
  const auto contents = ReadGguf(AsBytes(file));
  ASSERT_TRUE(contents.ok()) << contents.status().message();
  EXPECT_EQ(contents->tensors[1].file_offset, 512u);
}

TEST(Gguf, TheLastTensorNeedsNoPaddingAfterIt) {
  std::string file = GgufBuilder().Tensor("only", {1}, kGgmlF32, Zeros(4)).Build();
  file.resize(file.size() - 28);
  EXPECT_TRUE(ReadGguf(AsBytes(file)).ok());
  file.resize(file.size() - 1);
  EXPECT_THAT(ErrorOf(file), AllOf(HasSubstr("'only'"), HasSubstr("past the end of the file")));
}

TEST(Gguf, HeaderFaultsAreNamed) {
  struct Case {
    std::string file;
    std::string named;
  };
  const std::string good = "GGUF" + Bytes(uint32_t{3}) + Bytes(uint64_t{0}) + Bytes(uint64_t{0});
  for (const Case& c : std::vector<Case>{
           {"", "empty"},
           {"GG", "magic"},
           {"GGML" + good.substr(4), "magic"},
           {"GGUF" + Bytes(uint32_t{4}) + good.substr(8), "version 4"},
           {"GGUF" + Bytes(uint32_t{0x0300'0000}) + good.substr(8), "big-endian"},
           {good.substr(0, 20), "kv_count"},
           {good.substr(0, 8) + Bytes(uint64_t{1}) + Bytes(uint64_t{0}), "tensor_count 1"},
           {good.substr(0, 8) + Bytes(uint64_t{0}) + Bytes(uint64_t{1}), "kv_count 1"},
       }) {
    EXPECT_THAT(ErrorOf(c.file), HasSubstr(c.named));
  }
}

TEST(Gguf, MetadataFaultsNameTheKey) {
  struct Case {
    std::string key;
    ValueType type;
    std::string value;
    std::string named;
  };
  const auto array_of = [](uint32_t type, uint64_t count) { return Bytes(type) + Bytes(count); };
  for (const Case& c : std::vector<Case>{
           {"x", ValueType::kString, Bytes(uint64_t{1} << 63), "'x'"},
           {"x", static_cast<ValueType>(13), Zeros(8), "'x': value type 13"},
           {"x", ValueType::kBool, Bytes(uint8_t{2}), "'x': a bool is 0 or 1, not 2"},
           {"x", ValueType::kArray, array_of(77, 1) + Zeros(8), "'x': array element type 77"},
           {"x", ValueType::kArray, array_of(6, uint64_t{1} << 62), "'x': array length"},
           {"x", ValueType::kArray, array_of(8, uint64_t{1} << 40), "'x': array length"},
           {"x", ValueType::kArray, array_of(8, 1) + Bytes(uint64_t{99}), "'x': element 0"},
           {"x", ValueType::kArray, array_of(9, uint64_t{1} << 40), "'x': array length"},
           {"", ValueType::kUint8, Zeros(1), "key: it is empty"},
           {"a\xff", ValueType::kUint8, Zeros(1), "not valid UTF-8"},
           {std::string(65536, 'k'), ValueType::kUint8, Zeros(1), "key: its length is 65536"},
           {"general.alignment", ValueType::kUint32, Bytes(uint32_t{4}), "general.alignment: 4"},
           {"general.alignment", ValueType::kUint32, Bytes(uint32_t{48}), "general.alignment: 48"},
           {"general.alignment", ValueType::kInt32, Bytes(int32_t{-32}), "general.alignment: -32"},
       }) {
    const std::string file = GgufBuilder().Key(c.key, c.type, c.value).Build();
    EXPECT_THAT(ErrorOf(file), HasSubstr(c.named));
  }
}

TEST(Gguf, AKeyMayNotComeTwice) {
  const std::string file = GgufBuilder()
                               .Key("a.b", ValueType::kUint8, Bytes(uint8_t{1}))
                               .Key("other", ValueType::kUint8, Bytes(uint8_t{1}))
                               .Key("a.b", ValueType::kUint8, Bytes(uint8_t{1}))
                               .Build();
  EXPECT_THAT(ErrorOf(file), HasSubstr("duplicate metadata key 'a.b'"));
}

TEST(Gguf, ArraysMayNestFourDeepAndNoDeeper) {
  const auto nested = [](int depth) {
    std::string value = ArrayBytes<uint8_t>(ValueType::kUint8, {1, 2});
    for (int i = 1; i < depth; ++i) value.insert(0, Bytes(ValueType::kArray) + Bytes(uint64_t{1}));
    return GgufBuilder()
        .Key("deep", ValueType::kArray, value)
        .Key("after", ValueType::kUint8, Bytes(uint8_t{9}))
        .Build();
  };
  for (int depth = 1; depth <= 4; ++depth) {
    const std::string file = nested(depth);
    const auto contents = ReadGguf(AsBytes(file));
    ASSERT_TRUE(contents.ok()) << depth << ": " << contents.status().message();
    EXPECT_EQ(*contents->metadata.GetUint("after"), 9u);
  }
  EXPECT_THAT(ErrorOf(nested(5)), AllOf(HasSubstr("'deep'"), HasSubstr("nested deeper")));
}

TEST(Gguf, TensorFaultsNameTheTensor) {
  struct Case {
    std::vector<int64_t> shape;
    uint32_t type;
    uint64_t offset;
    std::string named;
  };
  constexpr int64_t kHuge = int64_t{1} << 62;
  for (const Case& c : std::vector<Case>{
           {{}, kGgmlF32, 0, "n_dims is 0"},
           {{1, 1, 1, 1, 1}, kGgmlF32, 0, "n_dims is 5"},
           {{4, 0}, kGgmlF32, 0, "dimension 1 is 0"},
           {{-32, 1}, kGgmlF32, 0, "dimension 0 is -32"},
           {{kHuge}, kGgmlF32, 0, "overflows"},
           {{1, kHuge, 8}, kGgmlF32, 0, "overflows"},
           {{int64_t{1} << 32, int64_t{1} << 32}, kGgmlF32, 0, "overflows"},
           // The bytes fit in 64 bits, the number of values does not.
           {{kHuge, 2}, kGgmlQ4_0, 0, "overflows"},
           {{33}, kGgmlQ4_0, 0, "multiple of Q4_0's block of 32"},
           {{4}, 4, 0, "tensor type 4 (Q4_2)"},
           {{4}, 26, 0, "tensor type 26 (I32)"},
           {{4}, 9999, 0, "tensor type 9999 (unknown)"},
           {{4}, kGgmlF32, 4, "offset 4 is not a multiple of the alignment"},
           {{4}, kGgmlF32, 64, "offset 64 and size 16 reach past the end"},
           {{4}, kGgmlF32, ~uint64_t{0} - 31, "reach past the end"},
           {{1000}, kGgmlF32, 0, "reach past the end"},
       }) {
    const std::string file = GgufBuilder()
                                 .Tensor("sound", {8}, kGgmlF32, Zeros(32))
                                 .TensorAt("broken", c.shape, c.type, c.offset)
                                 .Build();
    EXPECT_THAT(ErrorOf(file), AllOf(HasSubstr("tensor 'broken'"), HasSubstr(c.named)));
  }
}

TEST(Gguf, TensorsMayNotOverlap) {
  const std::string file = GgufBuilder()
                               .Tensor("first", {16}, kGgmlF32, Zeros(64))
                               .Tensor("second", {8}, kGgmlF32, Zeros(32))
                               .TensorAt("third", {8}, kGgmlF32, 32)
                               .Build();
  EXPECT_THAT(ErrorOf(file), HasSubstr("tensor 'third': its data overlaps that of 'first'"));
}

TEST(Gguf, ATensorNameIsText) {
  const auto named = [](const std::string& name) {
    return GgufBuilder().Tensor(name, {1}, kGgmlF32, Zeros(4)).Build();
  };
  EXPECT_THAT(ErrorOf(named("")), HasSubstr("tensor name: it is empty"));
  EXPECT_THAT(ErrorOf(named("\xc3")), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(ErrorOf(named(std::string(1025, 'x'))), HasSubstr("its length is 1025 bytes"));
  EXPECT_TRUE(ReadGguf(AsBytes(named(std::string(1024, 'x')))).ok());
}

}  // namespace
}  // namespace remontoir
