// Facts about typed metadata: getters and the lines for people.
#include "formats/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "formats/gguf.h"
#include "tests/unit/formats/gguf_builder.h"

namespace remontoir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The file of a builder, and its metadata.
struct Read {
  explicit Read(const GgufBuilder& builder) : file(builder.Build()) {
    auto contents = ReadGguf(AsBytes(file));
    EXPECT_TRUE(contents.ok()) << contents.status().message();
    if (contents.ok()) metadata = std::move(contents->metadata);
  }
  std::string file;
  Metadata metadata;
};

TEST(Metadata, GetUintReadsAnyIntegerType) {
  const Read read(GgufBuilder()
                      .Key("u8", ValueType::kUint8, Bytes(uint8_t{255}))
                      .Key("i8", ValueType::kInt8, Bytes(int8_t{127}))
                      .Key("u16", ValueType::kUint16, Bytes(uint16_t{65535}))
                      .Key("i16", ValueType::kInt16, Bytes(int16_t{32767}))
                      .Key("u32", ValueType::kUint32, Bytes(uint32_t{4'000'000'000}))
                      .Key("i32", ValueType::kInt32, Bytes(int32_t{2'000'000'000}))
                      .Key("u64", ValueType::kUint64, Bytes(~uint64_t{0}))
                      .Key("i64", ValueType::kInt64, Bytes(std::numeric_limits<int64_t>::max())));
  EXPECT_EQ(*read.metadata.GetUint("u8"), 255u);
  EXPECT_EQ(*read.metadata.GetUint("i8"), 127u);
  EXPECT_EQ(*read.metadata.GetUint("u16"), 65535u);
  EXPECT_EQ(*read.metadata.GetUint("i16"), 32767u);
  EXPECT_EQ(*read.metadata.GetUint("u32"), 4'000'000'000u);
  EXPECT_EQ(*read.metadata.GetUint("i32"), 2'000'000'000u);
  EXPECT_EQ(*read.metadata.GetUint("u64"), ~uint64_t{0});
  EXPECT_EQ(*read.metadata.GetUint("i64"), ~uint64_t{0} >> 1);
}

TEST(Metadata, GetUintRefusesNegativeNumbersOfAnyWidth) {
  const Read read(GgufBuilder()
                      .Key("i8", ValueType::kInt8, Bytes(int8_t{-1}))
                      .Key("i16", ValueType::kInt16, Bytes(int16_t{-300}))
                      .Key("i32", ValueType::kInt32, Bytes(int32_t{-70'000}))
                      .Key("i64", ValueType::kInt64, Bytes(std::numeric_limits<int64_t>::min())));
  EXPECT_EQ(read.metadata.GetUint("i8").status().message(), "i8: -1 is negative");
  EXPECT_EQ(read.metadata.GetUint("i16").status().message(), "i16: -300 is negative");
  EXPECT_EQ(read.metadata.GetUint("i32").status().message(), "i32: -70000 is negative");
  EXPECT_EQ(read.metadata.GetUint("i64").status().message(),
            "i64: -9223372036854775808 is negative");
}

TEST(Metadata, ScalarsComeAsStored) {
  const Read read(
      GgufBuilder()
          .Key("f32", ValueType::kFloat32, Bytes(0.1f))
          .Key("f64", ValueType::kFloat64, Bytes(0.1))
          .Key("nan", ValueType::kFloat32, Bytes(std::numeric_limits<float>::quiet_NaN()))
          .Key("yes", ValueType::kBool, Bytes(uint8_t{1}))
          .Key("no", ValueType::kBool, Bytes(uint8_t{0}))
          .Key("text", ValueType::kString, StringBytes("h\xc3\xa9llo"))
          .Key("none", ValueType::kString, StringBytes("")));
  EXPECT_EQ(*read.metadata.GetFloat("f32"), static_cast<double>(0.1f));
  EXPECT_EQ(*read.metadata.GetFloat("f64"), 0.1);
  EXPECT_NE(*read.metadata.GetFloat("nan"), *read.metadata.GetFloat("nan"));
  EXPECT_TRUE(*read.metadata.GetBool("yes"));
  EXPECT_FALSE(*read.metadata.GetBool("no"));
  EXPECT_EQ(*read.metadata.GetString("text"), "h\xc3\xa9llo");
  EXPECT_EQ(*read.metadata.GetString("none"), "");
}

TEST(Metadata, ArraysComeAsStored) {
  const Read read(
      GgufBuilder()
          .Key("strings", ValueType::kArray,
               ArrayBytes<std::string>(ValueType::kString, {"a", "", "\xff"}))
          .Key("i16", ValueType::kArray, ArrayBytes<int16_t>(ValueType::kInt16, {-2, 0, 32767}))
          .Key("u64", ValueType::kArray, ArrayBytes<uint64_t>(ValueType::kUint64, {1, 2}))
          .Key("f32", ValueType::kArray, ArrayBytes<float>(ValueType::kFloat32, {-0.5f, 8.0f}))
          .Key("empty", ValueType::kArray, ArrayBytes<float>(ValueType::kFloat32, {})));
  const auto strings = read.metadata.GetStringArray("strings");
  ASSERT_TRUE(strings.ok());
  ASSERT_EQ(strings->size(), 3u);
  EXPECT_EQ((*strings)[0], "a");
  EXPECT_EQ((*strings)[1], "");
  EXPECT_EQ((*strings)[2], "\xff");
  EXPECT_THAT(*read.metadata.GetIntArray("i16"), ElementsAre(-2, 0, 32767));
  EXPECT_THAT(*read.metadata.GetIntArray("u64"), ElementsAre(1, 2));
  EXPECT_THAT(*read.metadata.GetFloatArray("f32"), ElementsAre(-0.5f, 8.0f));
  EXPECT_TRUE(read.metadata.GetFloatArray("empty")->empty());
}

TEST(Metadata, AnIntegerElementAboveInt64IsNamed) {
  const Read read(GgufBuilder().Key(
      "big", ValueType::kArray, ArrayBytes<uint64_t>(ValueType::kUint64, {1, uint64_t{1} << 63})));
  EXPECT_THAT(read.metadata.GetIntArray("big").status().message(),
              HasSubstr("big: element 1 is 9223372036854775808"));
}

TEST(Metadata, AMissingKeyIsNotFoundAndNamed) {
  const Read read(GgufBuilder().Key("b", ValueType::kUint8, Bytes(uint8_t{1})));
  for (const std::string key : {"a", "c", ""}) {
    const Status status = read.metadata.GetUint(key).status();
    EXPECT_EQ(status.code(), StatusCode::kNotFound);
    EXPECT_EQ(status.message(), "metadata key " + key + " is missing");
    EXPECT_EQ(read.metadata.Find(key), nullptr);
  }
}

TEST(Metadata, AWrongTypeNamesKeyFoundAndWanted) {
  const Read read(GgufBuilder()
                      .Key("text", ValueType::kString, StringBytes("1"))
                      .Key("uint", ValueType::kUint32, Bytes(uint32_t{1}))
                      .Key("list", ValueType::kArray, ArrayBytes<int32_t>(ValueType::kInt32, {1}))
                      .Key("nest", ValueType::kArray,
                           Bytes(ValueType::kArray) + Bytes(uint64_t{1}) +
                               ArrayBytes<uint8_t>(ValueType::kUint8, {1})));
  const Metadata& m = read.metadata;
  struct Case {
    Status status;
    std::string expected;
  };
  for (const Case& c : {
           Case{m.GetUint("text").status(), "text: its type is string, wanted an integer"},
           Case{m.GetUint("list").status(), "list: its type is array of int32, wanted an integer"},
           Case{m.GetFloat("uint").status(), "uint: its type is uint32, wanted float32 or float64"},
           Case{m.GetBool("uint").status(), "uint: its type is uint32, wanted bool"},
           Case{m.GetString("uint").status(), "uint: its type is uint32, wanted string"},
           Case{m.GetStringArray("list").status(),
                "list: its type is array of int32, wanted array of string"},
           Case{m.GetStringArray("text").status(),
                "text: its type is string, wanted array of string"},
           Case{m.GetIntArray("uint").status(),
                "uint: its type is uint32, wanted array of integers"},
           Case{m.GetIntArray("nest").status(),
                "nest: its type is array of array, wanted array of integers"},
           Case{m.GetFloatArray("list").status(),
                "list: its type is array of int32, wanted array of float32"},
       }) {
    EXPECT_EQ(c.status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(c.status.message(), c.expected);
  }
}

TEST(Metadata, LinesForPeopleKeepTheFilesOrderAndShortenLongValues) {
  std::vector<std::string> tokens(1000, "tok");
  tokens[1] = "a token of many characters";
  const Read read(
      GgufBuilder()
          .Key("z.name", ValueType::kString, StringBytes("two\nlines \x1b[31m \xff"))
          .Key("count", ValueType::kInt32, Bytes(int32_t{-5}))
          .Key("eps", ValueType::kFloat32, Bytes(1e-5f))
          .Key("base", ValueType::kFloat32, Bytes(100000.0f))
          .Key("tiny", ValueType::kFloat64, Bytes(-4.9406564584124654e-324))
          .Key("flag", ValueType::kBool, Bytes(uint8_t{1}))
          .Key("tokens", ValueType::kArray, ArrayBytes(ValueType::kString, tokens))
          .Key("few", ValueType::kArray, ArrayBytes<float>(ValueType::kFloat32, {0.1f, 2.0f}))
          .Key("long", ValueType::kString, StringBytes(std::string(5000, 'x')))
          .Key("nest", ValueType::kArray,
               Bytes(ValueType::kArray) + Bytes(uint64_t{1}) +
                   ArrayBytes<uint8_t>(ValueType::kUint8, {1})));
  struct Line {
    std::string key, type, value;
  };
  const std::vector<Line> expected = {
      {"z.name", "string", "two\\nlines \\x1b[31m \xef\xbf\xbd"},
      {"count", "int32", "-5"},
      {"eps", "float32", "1e-05"},
      {"base", "float32", "100000"},
      {"tiny", "float64", "-5e-324"},
      {"flag", "bool", "true"},
      {"tokens", "array of string",
       R"(["tok", "a token of many …", "tok", "tok", "tok", "tok", … 1000 in all])"},
      {"few", "array of float32", "[0.1, 2]"},
      {"long", "string", std::string(100, 'x') + "…"},
      {"nest", "array of array", "[… 1 in all]"},
  };
  const auto lines = read.metadata.Describe();
  ASSERT_EQ(lines.size(), expected.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].key, expected[i].key);
    EXPECT_EQ(lines[i].type, expected[i].type);
    EXPECT_EQ(lines[i].value, expected[i].value);
  }
}

}  // namespace
}  // namespace remontoir
