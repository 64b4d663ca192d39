// The parts come from the hub's URL parser.
#include "loadgen/load_target.h"

#include "hub/url.h"

namespace remontoir {

Result<LoadTarget> ParseLoadTarget(std::string_view text) {
  REM_ASSIGN_OR_RETURN(const Url url, ParseUrl(text));
  if (url.scheme != "http") {
    return InvalidArgument("address '" + url.text + "': load is sent over http alone");
  }
  LoadTarget target{url.host, url.port, url.host + ":" + url.port, ""};
  if (target.host.starts_with('[') && target.host.ends_with(']')) {
    target.host = target.host.substr(1, target.host.size() - 2);
  }
  const size_t authority = url.text.find("://") + 3;
  const size_t path = url.text.find('/', authority);
  if (path != std::string::npos) {
    target.path = url.text.substr(path, url.text.find('?', path) - path);
  }
  while (target.path.ends_with('/')) target.path.pop_back();
  // "http://host/v1" is how OpenAI's clients are told their base.
  if (target.path.ends_with("/v1")) target.path.resize(target.path.size() - 3);
  return target;
}

}  // namespace remontoir
