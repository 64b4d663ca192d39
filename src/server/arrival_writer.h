// When requests came and how long they were, in a file: what a forecaster of arrivals learns from.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"

namespace remontoir {

struct ArrivalWriterOptions {
  std::string path = {};                         // empty: none is kept
  int64_t bytes_max = int64_t{64} << 20;         // on disk, of PATH and PATH.1 together
  size_t unended_max = 4096;                     // requests whose end is awaited; see Begin
  size_t unwritten_bytes_max = size_t{1} << 20;  // beyond: lines are lost
};

// Lines of CSV in order of arrival, behind a line of names:
//   t_us,prompt_tokens,output_tokens,client_cell,device
// t_us: microseconds since 1970; client_cell: 0 ... 63, of a hash whose salt nobody keeps; device:
// empty, as nothing is known of it. No text, no address, no key. Writing is another thread's work; the
// first error ends it with a warning, and the server goes on.
class ArrivalWriter {
 public:
  // Identifies a request from Begin to End.
  using Ticket = uint64_t;
  static constexpr int32_t kClientCells = 64;

  ArrivalWriter(ArrivalWriterOptions options, const Clock& clock);
  // Writes what is there; requests that never ended have no output tokens.
  ~ArrivalWriter();
  ArrivalWriter(const ArrivalWriter&) = delete;
  ArrivalWriter& operator=(const ArrivalWriter&) = delete;

  // The event loop, as End. A request came, not before the one of the last call. client: who sent
  // it, a key or an address. Its line, and all later ones, wait for its end; once unended_max
  // requests wait, the first is written without output tokens.
  Ticket Begin(TimePoint arrived, int64_t prompt_tokens, std::string_view client);
  void End(Ticket ticket, int64_t output_tokens);

 private:
  struct Entry {
    int64_t unix_us = 0;
    int64_t prompt_tokens = 0;
    int64_t output_tokens = 0;
    int32_t client_cell = 0;
    bool ended = false;
  };

  int32_t CellOf(std::string_view client) const;
  void WriteFirst();

  const ArrivalWriterOptions options_;
  const int64_t unix_us_at_zero_;  // of the clock
  const std::array<uint64_t, 2> salt_;

  std::deque<Entry> entries_;  // in order of arrival, since first_ticket_
  Ticket first_ticket_ = 0;

  // The writer.
  void Run();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::string unwritten_;
  bool lost_ = false;    // a line found no room in unwritten_
  bool failed_ = false;  // nothing is taken any more
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace remontoir
