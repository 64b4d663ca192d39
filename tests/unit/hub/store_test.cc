// What the store lists, finds, resolves and removes.
#include "hub/store.h"

#include <gmock/gmock.h>
#include <sys/file.h>

#include "hub/partial_file.h"
#include "tests/support/temporary_folder.h"

namespace remontoir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<StoredModel> List(const TemporaryFolder& folder) {
  const auto models = ListModels(folder.path());
  EXPECT_TRUE(models.ok()) << models.status().message();
  return *models;
}

std::vector<std::string> Names(const std::vector<StoredModel>& models) {
  std::vector<std::string> names;
  for (const StoredModel& model : models) names.push_back(model.name);
  return names;
}

TEST(ListModels, FindsPlainFilesRepositoriesPartsAndPartialFiles) {
  const TemporaryFolder folder;
  folder.Write("plain.gguf", "1234");
  folder.Write("notes.txt", "x");
  folder.Write("repacked/0123456789abcdef0123456789abcdef.panels", "x");
  folder.Write("fetch.abc/model", "x");
  folder.Write(".hidden/a.gguf", "x");
  folder.Write("o/r/whole-00001-of-00002.gguf", "123");
  folder.Write("o/r/whole-00002-of-00002.gguf", "45");
  folder.Write("o/r/half-00001-of-00002.gguf", "123");
  folder.Write("o/r/half-00002-of-00002.gguf.partial", "4");
  folder.Write("o/r/half-00002-of-00002.gguf.partial.json", "{}");
  folder.Write("o/r/q/begun.gguf.partial", "12");
  folder.Write("o/r/again.gguf", "1");
  folder.Write("o/r/again.gguf.partial", "22");
  const auto models = List(folder);
  ASSERT_THAT(Names(models),
              ElementsAre("o/r/again.gguf", "o/r/half-00001-of-00002.gguf", "o/r/q/begun.gguf",
                          "o/r/whole-00001-of-00002.gguf", "plain.gguf"));
  const struct {
    int64_t size_bytes;
    bool complete;
    size_t files;
  } expected[] = {{1, true, 1}, {4, false, 2}, {2, false, 1}, {5, true, 2}, {4, true, 1}};
  for (size_t i = 0; i < models.size(); ++i) {
    EXPECT_EQ(models[i].size_bytes, expected[i].size_bytes) << models[i].name;
    EXPECT_EQ(models[i].complete, expected[i].complete) << models[i].name;
    EXPECT_EQ(models[i].files.size(), expected[i].files) << models[i].name;
    EXPECT_GT(models[i].modified_unix_s, 1'700'000'000);
  }
}

TEST(ListModels, IsEmptyWithoutAStore) {
  const auto models = ListModels("/nonexistent/store");
  ASSERT_TRUE(models.ok());
  EXPECT_THAT(*models, IsEmpty());
}

TEST(ListModels, ListsLinkedFilesButEntersNoLinkedFolder) {
  const TemporaryFolder elsewhere;
  elsewhere.Write("b.gguf", "1");
  const TemporaryFolder folder;
  std::filesystem::create_symlink(elsewhere.path(), folder / "linked");
  std::filesystem::create_symlink(elsewhere / "b.gguf", folder / "a.gguf");
  EXPECT_THAT(Names(List(folder)), ElementsAre("a.gguf"));
}

std::vector<StoredModel> Named(const std::vector<std::string>& names) {
  std::vector<StoredModel> models;
  for (const std::string& name : names) models.push_back({name, {"/s/" + name}, 1, 1, true});
  return models;
}

TEST(FindModel, TakesExactNamesAndUniquePrefixes) {
  const auto models =
      Named({"Smol.Q4_1.gguf", "o/r/Qwen.Q4_0.gguf", "o/r/Qwen.Q8_0.gguf", "p/r/Smol.gguf"});
  const std::pair<const char*, const char*> cases[] = {
      {"Smol.Q4_1.gguf", "Smol.Q4_1.gguf"},
      {"smol.q4_1", "Smol.Q4_1.gguf"},
      {"o/r/Qwen.Q8_0", "o/r/Qwen.Q8_0.gguf"},
      {"hf:o/r/Qwen.Q8_0.gguf", "o/r/Qwen.Q8_0.gguf"},
      {"qwen.q8_0.gguf", "o/r/Qwen.Q8_0.gguf"},
      {"Smol", "p/r/Smol.gguf"},  // the whole name of a file comes before the start of one
      {"qwen.q4", "o/r/Qwen.Q4_0.gguf"},
      {"p/", "p/r/Smol.gguf"},
  };
  for (const auto& [name, found] : cases) {
    const auto model = FindModel(models, name);
    ASSERT_TRUE(model.ok()) << name << ": " << model.status().message();
    EXPECT_EQ(model->name, found) << name;
  }
}

TEST(FindModel, ListsWhatItCouldBe) {
  const auto models = Named({"o/r/Qwen.Q4_0.gguf", "o/r/Qwen.Q8_0.gguf", "z.gguf"});
  const struct {
    const char* name;
    StatusCode code;
    const char* said;
  } cases[] = {
      {"", StatusCode::kInvalidArgument, "empty"},
      {"hf:", StatusCode::kInvalidArgument, "empty"},
      {"o/r", StatusCode::kInvalidArgument, "o/r/Qwen.Q4_0.gguf, o/r/Qwen.Q8_0.gguf"},
      {"qwen", StatusCode::kInvalidArgument, "several"},
      {"../z.gguf", StatusCode::kNotFound, "there are o/r/Qwen.Q4_0.gguf"},
      {"/s/z.gguf", StatusCode::kNotFound, "no model"},
  };
  for (const auto& c : cases) {
    const auto model = FindModel(models, c.name);
    ASSERT_FALSE(model.ok()) << c.name;
    EXPECT_EQ(model.status().code(), c.code) << c.name;
    EXPECT_THAT(model.status().message(), HasSubstr(c.said));
  }
  EXPECT_THAT(FindModel({}, "a").status().message(), HasSubstr("none yet"));
}

TEST(RemoveModel, TakesAllPartsAndEmptyFoldersAndNothingElse) {
  const TemporaryFolder folder;
  folder.Write("o/r/a-00001-of-00002.gguf", "1");
  folder.Write("o/r/a-00002-of-00002.gguf.partial", "1");
  folder.Write("o/r/a-00002-of-00002.gguf.partial.json", "{}");
  folder.Write("o/s/b.gguf", "1");
  folder.Write("p/r/c.gguf", "1");
  const auto models = List(folder);
  ASSERT_TRUE(RemoveModel(folder.path(), models[0]).ok());
  EXPECT_THAT(folder.Files(), ElementsAre("o/s/b.gguf", "p/r/c.gguf"));
  EXPECT_FALSE(Exists(folder / "o/r"));
  EXPECT_TRUE(Exists(folder / "o"));
  ASSERT_TRUE(RemoveModel(folder.path(), models[1]).ok());
  ASSERT_TRUE(RemoveModel(folder.path(), models[2]).ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(RemoveModel, KeepsAModelThatIsBeingDownloaded) {
  const TemporaryFolder folder;
  folder.Write("a.gguf.partial", "1");
  const auto models = List(folder);
  const auto held = PartialFile::Open(folder / "a.gguf", {[] {}, [] { return false; }});
  ASSERT_TRUE(held.ok());
  EXPECT_EQ(RemoveModel(folder.path(), models[0]).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Exists(folder / "a.gguf.partial"));
}

TEST(RemoveModel, TakesALinkAndLeavesWhatItLeadsTo) {
  const TemporaryFolder elsewhere;
  elsewhere.Write("b.gguf", "1");
  const TemporaryFolder folder;
  std::filesystem::create_symlink(elsewhere / "b.gguf", folder / "a.gguf");
  ASSERT_TRUE(RemoveModel(folder.path(), List(folder)[0]).ok());
  EXPECT_THAT(folder.Files(), IsEmpty());
  EXPECT_TRUE(Exists(elsewhere / "b.gguf"));
}

TEST(FindReference, ChoosesAmongWhatIsComplete) {
  const TemporaryFolder folder;
  folder.Write("o/r/m.Q8_0-00001-of-00002.gguf", "1");
  folder.Write("o/r/m.Q8_0-00002-of-00002.gguf", "1");
  folder.Write("o/r/m.Q4_0.gguf.partial", "1");
  folder.Write("o/rr/m.Q4_1.gguf", "1");
  const auto models = List(folder);
  const std::pair<const char*, const char*> cases[] = {
      {"o/r:q8_0", "o/r/m.Q8_0-00001-of-00002.gguf"},
      {"o/r", "o/r/m.Q8_0-00001-of-00002.gguf"},
      {"o/r/m.Q8_0-00002-of-00002.gguf", "o/r/m.Q8_0-00001-of-00002.gguf"},
      {"o/r:Q4_0", ""},
      {"o/r:Q4_1", ""},
  };
  for (const auto& [text, name] : cases) {
    const auto model = FindReference(models, *ParseModelReference(text));
    EXPECT_EQ(model.ok() ? model->name : "", name) << text;
  }
}

TEST(ResolveModel, TakesPathsThenNamesThenReferences) {
  const TemporaryFolder folder;
  folder.Write("there.gguf", "1");
  folder.Write("o/r/m.Q4_0.gguf", "1");
  folder.Write("o/r/n.Q8_0.gguf.partial", "1");
  const struct {
    std::string name;
    std::string path;
    std::string pull;
  } cases[] = {
      {folder / "there.gguf", folder / "there.gguf", ""},
      {"there", folder / "there.gguf", ""},
      {"m.q4_0", folder / "o/r/m.Q4_0.gguf", ""},
      {"hf:o/r:Q4_0", folder / "o/r/m.Q4_0.gguf", ""},
      {"hf:o/r/m.Q4_0.gguf", folder / "o/r/m.Q4_0.gguf", ""},
      {"hf:o/r:Q8_0", "", "hf:o/r:Q8_0"},
      {"hf:o/r", "", "hf:o/r"},
      {"hf:x/y", "", "hf:x/y"},
  };
  for (const auto& c : cases) {
    const auto resolved = ResolveModel(folder.path(), c.name);
    ASSERT_TRUE(resolved.ok()) << c.name << ": " << resolved.status().message();
    EXPECT_EQ(resolved->path, c.path) << c.name;
    EXPECT_EQ(resolved->pull ? ModelReferenceText(*resolved->pull) : "", c.pull) << c.name;
  }
}

TEST(ResolveModel, SaysWhatToDoAboutAModelThatIsNotThere) {
  const TemporaryFolder folder;
  folder.Write("o/r/n.Q8_0.gguf.partial", "1");
  const auto unknown = ResolveModel(folder.path(), "zzz.gguf");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.status().message(), HasSubstr("there is no file 'zzz.gguf'"));
  EXPECT_THAT(unknown.status().message(), HasSubstr("remontoir pull hf:"));
  const auto half = ResolveModel(folder.path(), "n.Q8_0");
  ASSERT_FALSE(half.ok());
  EXPECT_THAT(half.status().message(), HasSubstr("pull hf:o/r/n.Q8_0.gguf"));
  EXPECT_FALSE(ResolveModel(folder.path(), "hf:../x").ok());
}

}  // namespace
}  // namespace remontoir
