// Facts about .npy files: what is read, and what is refused with which words.
#include "eval/npy_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace remontoir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file of version 1.
std::string Npy(const std::string& dictionary, const std::string& data) {
  std::string header = dictionary + "\n";
  std::string file = "\x93NUMPY";
  file += '\x01';
  file += '\x00';
  file += static_cast<char>(header.size() % 256);
  file += static_cast<char>(header.size() / 256);
  return file + header + data;
}

std::string Dictionary(const std::string& type, const std::string& shape,
                       const std::string& fortran = "False") {
  return "{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}

template <class T>
std::string BytesOf(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

Result<NpyMatrix> Read(const std::string& bytes) {
  const TemporaryFolder folder;
  folder.Write("a.npy", bytes);
  return ReadNpyMatrix(folder / "a.npy");
}

TEST(NpyFile, IsReadInEveryFloatType) {
  const std::string cases[] = {
      Npy(Dictionary("<f2", "(2, 2)"), BytesOf<uint16_t>({0x3c00, 0x4000, 0xbc00, 0x0000})),
      Npy(Dictionary("<f4", "(2, 2)"), BytesOf<float>({1, 2, -1, 0})),
      Npy(Dictionary("<f8", "(2, 2)"), BytesOf<double>({1, 2, -1, 0})),
  };
  for (const std::string& bytes : cases) {
    const Result<NpyMatrix> matrix = Read(bytes);
    ASSERT_TRUE(matrix.ok()) << matrix.status().message();
    EXPECT_EQ(matrix->rows, 2);
    EXPECT_EQ(matrix->columns, 2);
    EXPECT_THAT(matrix->Row(0), ElementsAre(1, 2));
    EXPECT_THAT(matrix->Row(1), ElementsAre(-1, 0));
  }
}

TEST(NpyFile, OfOneDimensionIsARow) {
  const Result<NpyMatrix> matrix = Read(Npy(Dictionary("<f4", "(3,)"), BytesOf<float>({1, 2, 3})));
  ASSERT_TRUE(matrix.ok()) << matrix.status().message();
  EXPECT_EQ(matrix->rows, 1);
  EXPECT_THAT(matrix->Row(0), ElementsAre(1, 2, 3));
}

TEST(NpyFile, OfNumPyItselfIsRead) {
  const Result<NpyMatrix> matrix = ReadNpyMatrix(TestData("tiny/tiny-llama.s3.logits.npy"));
  ASSERT_TRUE(matrix.ok()) << matrix.status().message();
  EXPECT_GT(matrix->rows, 3);
}

TEST(NpyFile, ThatIsWrongIsRefusedByName) {
  const std::string four = BytesOf<float>({1, 2, 3, 4});
  const struct {
    std::string bytes;
    const char* words;
  } cases[] = {
      {"", "no .npy file"},
      {"not an array at all", "no .npy file"},
      {std::string("\x93NUMPY\x01\x00\xff\xff", 10) + "{}", "its header is cut off"},
      {std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14), "its header is cut off"},
      {Npy("{}", four), "no element type"},
      {Npy(Dictionary("<i4", "(2, 2)"), four), "elements of type <i4"},
      {Npy(Dictionary(">f4", "(2, 2)"), four), "elements of type >f4"},
      {Npy(Dictionary("<f4", "(2, 2)", "True"), four), "Fortran"},
      {Npy(Dictionary("<f4", "()"), four), "0 dimensions"},
      {Npy(Dictionary("<f4", "(1, 2, 2)"), four), "3 dimensions"},
      {Npy(Dictionary("<f4", "(2, -2)"), four), "something else than sizes"},
      {Npy(Dictionary("<f4", "(2, x)"), four), "something else than sizes"},
      {Npy(Dictionary("<f4", "(99999999999999999999,)"), four), "something else than sizes"},
      {Npy(Dictionary("<f4", "(2147483648, 2147483648)"), four),
       "wants 4611686018427387904 values"},
      {Npy(Dictionary("<f4", "(2, 3)"), four), "wants 6 values of 4 bytes, but it has 16"},
      {Npy(Dictionary("<f4", "(1, 3)"), four), "wants 3 values"},
      {Npy("{'descr': '<f4', 'fortran_order': False, }", four), "no shape"},
  };
  for (const auto& test : cases) {
    const Result<NpyMatrix> matrix = Read(test.bytes);
    ASSERT_FALSE(matrix.ok()) << test.words;
    EXPECT_THAT(matrix.status().message(), HasSubstr(test.words));
    EXPECT_THAT(matrix.status().message(), HasSubstr("a.npy"));
  }
}

}  // namespace
}  // namespace remontoir
