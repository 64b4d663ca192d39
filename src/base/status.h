// Status and Result: errors are values. A message names what is wrong: file, field, key or tensor.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace remontoir {

enum class StatusCode {
  kOk,
  kInvalidArgument,     // the caller's input is wrong: a file, a flag, a request field
  kNotFound,            // a named thing does not exist
  kFailedPrecondition,  // right input at the wrong time or in the wrong state
  kResourceExhausted,   // a named bound is met: retry later or ask for less
  kDeadlineExceeded,    // it would come too late
  kUnavailable,         // not ready yet, or shutting down
  kUnsupported,         // well-formed, but this build can't run it
  kCancelled,           // whoever asked has gone
  kIoError,             // the operating system refused
};

std::string_view StatusCodeName(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return {}; }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same error with "context: " before its message; ok stays ok.
  Status WithContext(std::string_view context) const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

Status InvalidArgument(std::string message);
Status NotFound(std::string message);
Status FailedPrecondition(std::string message);
Status ResourceExhausted(std::string message);
Status DeadlineExceeded(std::string message);
Status Unavailable(std::string message);
Status Unsupported(std::string message);
Status Cancelled(std::string message);
Status IoError(std::string message);

// A value or the error that stood in its way.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    REM_CHECK(!status_.ok(), "a Result without a value needs an error");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  T& value() & { return Checked(); }
  const T& value() const& { return const_cast<Result*>(this)->Checked(); }
  T&& value() && { return std::move(Checked()); }

  T& operator*() & { return Checked(); }
  const T& operator*() const& { return const_cast<Result*>(this)->Checked(); }
  T&& operator*() && { return std::move(Checked()); }
  T* operator->() { return &Checked(); }
  const T* operator->() const { return &const_cast<Result*>(this)->Checked(); }

 private:
  T& Checked() {
    REM_CHECK(value_.has_value(), "value of a failed Result");
    return *value_;
  }

  std::optional<T> value_;
  Status status_;
};

}  // namespace remontoir

#define REM_CONCAT_INNER(a, b) a##b
#define REM_CONCAT(a, b) REM_CONCAT_INNER(a, b)

// Returns the error of a Status expression to the caller.
#define REM_RETURN_IF_ERROR(expression)                                    \
  do {                                                                     \
    if (::remontoir::Status rem_status = (expression); !rem_status.ok()) { \
      return rem_status;                                                   \
    }                                                                      \
  } while (false)

// REM_ASSIGN_OR_RETURN(auto x, F()): x from a Result, or its error to the caller.
#define REM_ASSIGN_OR_RETURN(declaration, expression) \
  REM_ASSIGN_OR_RETURN_INNER(REM_CONCAT(rem_result_, __LINE__), declaration, expression)
#define REM_ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                       \
  if (!result.ok()) return result.status();                         \
  declaration = std::move(result).value()
