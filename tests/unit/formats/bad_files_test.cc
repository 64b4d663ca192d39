// Facts about broken GGUF files: each gives an error that names what is wrong, whatever its bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "formats/gguf.h"
#include "formats/model_file.h"
#include "tests/support/paths.h"

namespace remontoir {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

// What is wrong in these is a hyperparameter, the tokenizer's or the tensor list's affair: they are
// sound GGUF files, and the floors above reject them.
const std::set<std::string> kOpenAtThisLayer = {
    "good.gguf",
    "no-architecture.gguf",
    "no-block-count.gguf",
    "block-count-huge.gguf",
    "block-count-string.gguf",
    "head-count-0.gguf",
    "head-count-5.gguf",
    "head-count-kv-4.gguf",
    "eps-negative.gguf",
    "rope-base-nan.gguf",
    "context-length-0.gguf",
    "tensor-missing.gguf",
    "vocab-mismatch.gguf",
    "no-tokens.gguf",
    "tokens-of-int.gguf",
    "token-type-short.gguf",
    "bos-out-of-range.gguf",
    "merge-unknown.gguf",
    "experts-used-9-of-4.gguf",
    "inf-weights.gguf",
};

struct BadFile {
  std::string file;
  std::string wrong;
  std::vector<std::string> must_name;
};

std::vector<BadFile> GgufFilesOfTheManifest() {
  std::vector<BadFile> files;
  const auto manifest = boost::json::parse(ReadFile(TestData("bad/manifest.json")));
  for (const auto& entry : manifest.as_array()) {
    BadFile bad;
    bad.file = entry.at("file").as_string();
    bad.wrong = entry.at("wrong").as_string();
    for (const auto& name : entry.at("must_name").as_array()) {
      bad.must_name.emplace_back(name.as_string());
    }
    if (bad.file.ends_with(".gguf")) files.push_back(bad);
  }
  return files;
}

bool NamesOneOf(const std::string& message, const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [&](const std::string& name) {
    return Lower(message).find(Lower(name)) != std::string::npos;
  });
}

TEST(BadFiles, EachIsRejectedByAnErrorThatNamesTheFault) {
  const auto files = GgufFilesOfTheManifest();
  ASSERT_EQ(files.size(), 54u);
  // A neutral name, so that the file's own name can't satisfy the manifest.
  const std::string neutral = testing::TempDir() + "/rem_bad_files_test_model.gguf";
  for (const BadFile& bad : files) {
    SCOPED_TRACE(bad.file + ": " + bad.wrong);
    std::filesystem::copy_file(TestData("bad/" + bad.file), neutral,
                               std::filesystem::copy_options::overwrite_existing);
    const auto opened = ModelFile::Open(neutral);
    if (kOpenAtThisLayer.contains(bad.file)) {
      EXPECT_TRUE(opened.ok()) << opened.status().message();
    } else if (opened.ok()) {
      ADD_FAILURE() << "it opened";
    } else {
      const std::string message = opened.status().message().substr(neutral.size());
      EXPECT_TRUE(NamesOneOf(message, bad.must_name)) << message;
    }
  }
  std::filesystem::remove(neutral);
}

// Reads everything that can be read of a file that opened.
size_t ReadAll(const GgufContents& contents) {
  size_t read = 0;
  for (const auto& line : contents.metadata.Describe()) {
    read += line.value.size();
    read += contents.metadata.GetUint(line.key).ok() ? 1 : 0;
    read += contents.metadata.GetString(line.key).ok() ? 1 : 0;
    read += contents.metadata.GetFloat(line.key).ok() ? 1 : 0;
    read += contents.metadata.GetBool(line.key).ok() ? 1 : 0;
    read += contents.metadata.GetIntArray(line.key).ok() ? 1 : 0;
    read += contents.metadata.GetFloatArray(line.key).ok() ? 1 : 0;
    const auto strings = contents.metadata.GetStringArray(line.key);
    for (size_t i = 0; strings.ok() && i < strings->size(); ++i) read += (*strings)[i].size();
  }
  for (const TensorInfo& tensor : contents.tensors) {
    read += std::to_integer<size_t>(tensor.view.data[0]) +
            std::to_integer<size_t>(tensor.view.data[tensor.view.size_bytes - 1]);
  }
  return read;
}

// The bytes lie on the heap at their exact size, so that a sanitizer sees a step past the end.
bool OpensWithoutHarm(const std::string& file) {
  const auto view = std::as_bytes(std::span(file));
  const std::vector<std::byte> bytes(view.begin(), view.end());
  const auto contents = ReadGguf(bytes);
  if (!contents.ok()) {
    EXPECT_FALSE(contents.status().message().empty());
    return false;
  }
  ReadAll(*contents);
  return true;
}

// The part of a good file that is read at all: header, metadata and tensor table.
std::string GoodFile() { return ReadFile(TestData("bad/good.gguf")); }
constexpr size_t kGoodTableBytes = 2048;

TEST(BadFiles, AnyCutOfAGoodFileIsAnError) {
  const std::string good = GoodFile();
  ASSERT_TRUE(OpensWithoutHarm(good));
  for (size_t size = 0; size <= kGoodTableBytes; ++size) {
    ASSERT_FALSE(OpensWithoutHarm(good.substr(0, size))) << size << " bytes";
  }
}

TEST(BadFiles, ChangedBytesNeverDoHarm) {
  const std::string good = GoodFile();
  const CounterRandom random(20240611, 0);
  constexpr unsigned char kNasty[] = {0x00, 0x01, 0x7f, 0x80, 0xff, 0x08, 0x09, 0x20};
  uint64_t counter = 0;
  int opened = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string mutant = good;
    const uint64_t changes = 1 + random.Bits(counter++) % 4;
    for (uint64_t i = 0; i < changes; ++i) {
      const uint64_t bits = random.Bits(counter++);
      char& byte = mutant[bits % kGoodTableBytes];
      const auto choice = bits >> 60;
      byte = choice < 8 ? static_cast<char>(kNasty[choice])
                        : static_cast<char>(byte ^ (1 << (choice - 8)));
    }
    opened += OpensWithoutHarm(mutant) ? 1 : 0;
  }
  // Both outcomes must be common, or the mutants test nothing.
  EXPECT_GT(opened, 400);
  EXPECT_LT(opened, 3600);
}

// Every 64-bit word of the table replaced by numbers that overflow sums and products.
TEST(BadFiles, HugeNumbersInAnyPlaceNeverDoHarm) {
  const std::string good = GoodFile();
  for (const uint64_t number : {uint64_t{1} << 63, ~uint64_t{0}, uint64_t{1} << 32,
                                (uint64_t{1} << 61) + 1, ~uint64_t{0} - 4095}) {
    for (size_t at = 8; at < kGoodTableBytes; ++at) {
      std::string mutant = good;
      for (size_t i = 0; i < 8; ++i) mutant[at + i] = static_cast<char>(number >> (8 * i));
      OpensWithoutHarm(mutant);
    }
  }
}

}  // namespace
}  // namespace remontoir
