#include "base/folder_writer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "support/figures.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;

void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
std::string get(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(FolderWriter, AppearsWholeOrNotAtAll) {
  const ScratchFolder scratch;
  const std::string path = scratch / "a/run";
  {
    FolderWriter writer(path);
    put(writer.file("x"), "1");
    EXPECT_FALSE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(fs::exists(path + ".tmp"));
  FolderWriter writer(path + "/");
  put(writer.file("x"), "2");
  writer.commit();
  EXPECT_EQ(get(path + "/x"), "2");
}

TEST(FolderWriter, ReplacesAFolderAndWhatWasLeftBehind) {
  const ScratchFolder scratch;
  const std::string path = scratch / "run";
  fs::create_directories(path);
  put(path + "/old", "old");
  fs::create_directories(path + ".tmp");
  put(path + ".tmp/torn", "torn");
  {
    FolderWriter unfinished(path);
    EXPECT_FALSE(fs::exists(unfinished.file("torn")));
  }
  EXPECT_EQ(get(path + "/old"), "old");
  FolderWriter writer(path);
  put(writer.file("new"), "new");
  writer.commit();
  EXPECT_EQ(get(path + "/new"), "new");
  EXPECT_FALSE(fs::exists(path + "/old"));
  EXPECT_FALSE(fs::exists(path + ".tmp"));
}

TEST(FolderWriter, RefusesWhatIsNoFolder) {
  const ScratchFolder scratch;
  put(scratch / "file", "x");
  EXPECT_THROW(FolderWriter(scratch / "file"), BadInput);
  EXPECT_THROW(FolderWriter(scratch / "file/below"), BadInput);
  EXPECT_THROW(FolderWriter(""), BadInput);
  EXPECT_EQ(get(scratch / "file"), "x");
}

}  // namespace
}  // namespace vitrine::test
