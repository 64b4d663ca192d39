// Names and builders of Status.
#include "base/status.h"

namespace remontoir {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return "ok";
    case StatusCode::kInvalidArgument: return "invalid argument";
    case StatusCode::kNotFound: return "not found";
    case StatusCode::kFailedPrecondition: return "failed precondition";
    case StatusCode::kResourceExhausted: return "resource exhausted";
    case StatusCode::kDeadlineExceeded: return "deadline exceeded";
    case StatusCode::kUnavailable: return "unavailable";
    case StatusCode::kUnsupported: return "unsupported";
    case StatusCode::kCancelled: return "cancelled";
    case StatusCode::kIoError: return "i/o error";
  }
  return "unknown";
}

Status Status::WithContext(std::string_view context) const {
  if (ok()) return *this;
  return {code_, std::string(context) + ": " + message_};
}

Status InvalidArgument(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}
Status NotFound(std::string message) { return {StatusCode::kNotFound, std::move(message)}; }
Status FailedPrecondition(std::string message) {
  return {StatusCode::kFailedPrecondition, std::move(message)};
}
Status ResourceExhausted(std::string message) {
  return {StatusCode::kResourceExhausted, std::move(message)};
}
Status DeadlineExceeded(std::string message) {
  return {StatusCode::kDeadlineExceeded, std::move(message)};
}
Status Unavailable(std::string message) { return {StatusCode::kUnavailable, std::move(message)}; }
Status Unsupported(std::string message) { return {StatusCode::kUnsupported, std::move(message)}; }
Status Cancelled(std::string message) { return {StatusCode::kCancelled, std::move(message)}; }
Status IoError(std::string message) { return {StatusCode::kIoError, std::move(message)}; }

}  // namespace remontoir
