// Reads files of three folders until there is enough.
#include "eval/installed_text.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

namespace remontoir {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kFileBytesMax = 1 << 20;  // larger ones are data

struct Source {
  const char* folder;
  const char* extension;
};
constexpr Source kSources[] = {{"/usr/share/common-licenses", ""}, {"/usr/lib/python3.11", ".py"}};

std::vector<fs::path> FilesOf(const Source& source) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(source.folder, error)) {
    if (entry.is_symlink(error) || !entry.is_regular_file(error)) continue;
    if (entry.path().extension() != source.extension && source.extension[0] != '\0') continue;
    if (entry.file_size(error) <= kFileBytesMax) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Result<std::string> InstalledText(size_t bytes) {
  std::string text;
  for (const Source& source : kSources) {
    for (const fs::path& path : FilesOf(source)) {
      std::ifstream file(path, std::ios::binary);
      text.append(std::istreambuf_iterator<char>(file), {});
      if (text.size() < bytes) continue;
      text.resize(bytes);
      return text;
    }
  }
  return NotFound("installed licences and Python sources have " + std::to_string(text.size()) +
                  " bytes of text, wanted " + std::to_string(bytes) + ": name a file by --text");
}

}  // namespace remontoir
