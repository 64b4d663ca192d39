// The arrival log as a file: its lines, their order, its bounds and what becomes of errors.
#include "server/arrival_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace remontoir {
namespace {

using ::testing::ElementsAre;
using ::testing::MatchesRegex;

constexpr char kNames[] = "t_us,prompt_tokens,output_tokens,client_cell,device";

std::vector<std::string> LinesOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

class ArrivalWriterTest : public ::testing::Test {
 protected:
  ArrivalWriterTest() { clock_.AdvanceUs(5'000'000); }

  ArrivalWriterOptions Options() const { return {.path = path_}; }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/arrivals.csv";
  ManualClock clock_;
};

TEST_F(ArrivalWriterTest, KeepsTheOrderOfArrivalWhateverEndsFirst) {
  {
    ArrivalWriter log(Options(), clock_);
    const auto first = log.Begin(TimePoint{5'000'001}, 10, "a");
    const auto second = log.Begin(TimePoint{6'000'000}, 20, "a");
    log.End(second, 2);
    const auto third = log.Begin(TimePoint{7'000'000}, 30, "a");
    log.End(first, 1);
    log.End(third, 3);
    log.Begin(TimePoint{8'000'000}, 40, "a");  // never ends
  }
  const auto lines = LinesOf(path_);
  EXPECT_THAT(lines, ElementsAre(kNames, MatchesRegex("5000001,10,1,[0-9]+,"),
                                 MatchesRegex("6000000,20,2,[0-9]+,"),
                                 MatchesRegex("7000000,30,3,[0-9]+,"),
                                 MatchesRegex("8000000,40,0,[0-9]+,")));
  struct stat facts = {};
  ASSERT_EQ(::stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST_F(ArrivalWriterTest, WaitsForABoundedNumberOfEnds) {
  ArrivalWriterOptions options = Options();
  options.unended_max = 2;
  {
    ArrivalWriter log(options, clock_);
    const auto first = log.Begin(TimePoint{1}, 1, "a");
    log.Begin(TimePoint{2}, 2, "a");
    const auto third = log.Begin(TimePoint{3}, 3, "a");
    log.End(first, 9);  // too late
    log.End(third, 9);
  }
  EXPECT_THAT(LinesOf(path_), ElementsAre(kNames, MatchesRegex("1,1,0,.*"),
                                          MatchesRegex("2,2,0,.*"), MatchesRegex("3,3,9,.*")));
}

// Clients are told apart by a hash that another process can't repeat.
TEST_F(ArrivalWriterTest, TellsClientsByACellThatChangesWithTheProcess) {
  const auto cells = [this] {
    std::filesystem::remove(path_);
    {
      ArrivalWriter log(Options(), clock_);
      for (int i = 0; i < 200; ++i) {
        log.End(log.Begin(TimePoint{i}, 1, "10.0.0." + std::to_string(i / 2)), 1);
      }
    }
    std::vector<int> found;
    for (const std::string& line : LinesOf(path_)) {
      if (line == kNames) continue;
      found.push_back(
          std::stoi(line.substr(line.find(',', line.find(',', line.find(',') + 1) + 1) + 1)));
    }
    return found;
  };
  const std::vector<int> first = cells();
  const std::vector<int> second = cells();
  ASSERT_EQ(first.size(), 200u);
  for (size_t i = 0; i < first.size(); i += 2) {
    EXPECT_EQ(first[i], first[i + 1]);
    EXPECT_GE(first[i], 0);
    EXPECT_LT(first[i], ArrivalWriter::kClientCells);
  }
  EXPECT_GT(std::set(first.begin(), first.end()).size(), 20u);
  EXPECT_NE(first, second);
}

TEST_F(ArrivalWriterTest, TakesNoMoreThanItsBytesInTwoFiles) {
  ArrivalWriterOptions options = Options();
  options.bytes_max = 2000;
  {
    ArrivalWriter log(options, clock_);
    for (int i = 0; i < 1000; ++i) log.End(log.Begin(TimePoint{i}, 1, "a"), 1);
  }
  const auto older = LinesOf(path_ + ".1");
  const auto newer = LinesOf(path_);
  EXPECT_LE(std::filesystem::file_size(path_), 1000u);
  EXPECT_LE(std::filesystem::file_size(path_ + ".1"), 1000u);
  EXPECT_GT(std::filesystem::file_size(path_ + ".1"), 900u);
  ASSERT_GE(newer.size(), 2u);
  EXPECT_EQ(older.front(), kNames);
  EXPECT_EQ(newer.front(), kNames);
  EXPECT_THAT(newer.back(), MatchesRegex("999,1,1,.*"));
  // One follows the other.
  EXPECT_EQ(std::stoi(newer[1]), std::stoi(older.back()) + 1);
}

TEST_F(ArrivalWriterTest, GoesOnWithTheFileOfAnEarlierProcess) {
  std::ofstream(path_) << kNames << "\n1,1,1,0,\n2,2";  // cut off
  {
    ArrivalWriter log(Options(), clock_);
    log.End(log.Begin(TimePoint{5'000'000}, 3, "a"), 3);
  }
  EXPECT_THAT(LinesOf(path_),
              ElementsAre(kNames, "1,1,1,0,", MatchesRegex("5000000,3,3,.*")));
}

TEST_F(ArrivalWriterTest, LeavesAFileAloneThatIsNoLog) {
  const std::string text(1000, 'x');
  std::ofstream(path_) << text;
  ::testing::internal::CaptureStderr();
  {
    ArrivalWriter log(Options(), clock_);
    log.End(log.Begin(TimePoint{5'000'000}, 3, "a"), 3);
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("something else"));
  EXPECT_THAT(LinesOf(path_), ElementsAre(text));
}

TEST_F(ArrivalWriterTest, EndsQuietlyWhereItCantWrite) {
  const std::string fifo = folder_.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {folder_.path() + "/no/such/folder", folder_.path(), fifo}) {
    ArrivalWriterOptions options = Options();
    options.path = path;
    ::testing::internal::CaptureStderr();
    {
      ArrivalWriter log(options, clock_);
      for (int i = 0; i < 1000; ++i) log.End(log.Begin(TimePoint{i}, 1, "a"), 1);
    }
    const std::string told = ::testing::internal::GetCapturedStderr();
    EXPECT_THAT(told, ::testing::HasSubstr("telemetry.arrival_log: " + path + ": "));
    EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
  }
}

}  // namespace
}  // namespace remontoir
