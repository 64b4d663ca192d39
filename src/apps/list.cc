// Prints and removes models of the store.
#include "apps/list.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "formats/printable.h"
#include "hub/repository.h"
#include "hub/settings.h"

namespace remontoir {
namespace {

constexpr size_t kNameCharactersMax = 200;

Result<std::string> StoreHome() {
  REM_ASSIGN_OR_RETURN(
      const HubSettings settings,
      ReadHubSettings([](const char* name) -> const char* { return std::getenv(name); }));
  return settings.home;
}

std::string DateText(int64_t unix_s) {
  const auto time = static_cast<std::time_t>(unix_s);
  std::tm local = {};
  localtime_r(&time, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local);
  return text;
}

std::string Padded(std::string text, size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

}  // namespace

std::string ModelTable(const std::vector<StoredModel>& models) {
  constexpr size_t kSizeWidth = 10;
  constexpr std::string_view kDateTitle = "MODIFIED";
  size_t name_width = 4;
  for (const StoredModel& model : models) name_width = std::max(name_width, model.name.size());
  std::string table = Padded("NAME", name_width) + "  " + Padded("SIZE", kSizeWidth) + "  " +
                      std::string(kDateTitle) + "\n";
  for (const StoredModel& model : models) {
    table += Padded(Printable(model.name, kNameCharactersMax), name_width) + "  " +
             Padded(SizeText(model.size_bytes), kSizeWidth) + "  " +
             DateText(model.modified_unix_s) + (model.complete ? "" : "  not complete") + "\n";
  }
  return table;
}

Status List(const ListCommand&, std::FILE* out) {
  REM_ASSIGN_OR_RETURN(const std::string home, StoreHome());
  REM_ASSIGN_OR_RETURN(const std::vector<StoredModel> models, ListModels(home));
  if (models.empty()) {
    std::fprintf(stderr, "no models in %s; `remontoir pull hf:OWNER/REPO` fetches one\n",
                 home.c_str());
    return Status::Ok();
  }
  std::fputs(ModelTable(models).c_str(), out);
  return Status::Ok();
}

Status Remove(const RemoveCommand& command, std::FILE* out) {
  REM_ASSIGN_OR_RETURN(const std::string home, StoreHome());
  REM_ASSIGN_OR_RETURN(const std::vector<StoredModel> models, ListModels(home));
  REM_ASSIGN_OR_RETURN(const StoredModel model, FindModel(models, command.name));
  REM_RETURN_IF_ERROR(RemoveModel(home, model));
  std::fprintf(out, "removed %s (%s)\n", Printable(model.name, kNameCharactersMax).c_str(),
               SizeText(model.size_bytes).c_str());
  return Status::Ok();
}

}  // namespace remontoir
