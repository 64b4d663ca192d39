// Where tests find their data: unpacked archives and the default model.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace remontoir {

// A file of tests/data's archives, e.g. "tiny/manifest.json".
inline std::string TestData(const std::string& name) {
  return std::string(REMONTOIR_TEST_DATA) + "/" + name;
}

// A model as scripts/fetch_model leaves it.
inline std::string StoredModelPath(const std::string& file) {
  const char* home = std::getenv("REMONTOIR_HOME");
  const std::string folder = home != nullptr && *home != '\0'
                                 ? std::string(home)
                                 : std::string(std::getenv("HOME")) + "/.cache/remontoir";
  return folder + "/" + file;
}

// A tiny model of the archives, else a stored one, by its file's name.
inline std::string TinyOrStoredModelPath(const std::string& file) {
  const std::string tiny = TestData("tiny/" + file);
  return std::filesystem::exists(tiny) ? tiny : StoredModelPath(file);
}

inline std::string DefaultModelPath() { return StoredModelPath("SmolLM2-135M-Instruct.Q4_1.gguf"); }

}  // namespace remontoir
