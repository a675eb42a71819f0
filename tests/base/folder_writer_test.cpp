#include "base/folder_writer.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/temp_folder.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;

TEST(FolderWriter, CreatesTheFolderAtTheCommit) {
  const TempFolder scratch;
  const std::string path = scratch / "a/run";
  {
    FolderWriter writer(path);
    write_file(writer.file("x"), "1");
    EXPECT_FALSE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(fs::exists(path + ".tmp"));
  FolderWriter writer(path + "/");
  write_file(writer.file("x"), "2");
  writer.commit();
  EXPECT_EQ(read_file(path + "/x"), "2");
}

TEST(FolderWriter, ReplacesAFolderAndAnUnfinishedOne) {
  const TempFolder scratch;
  const std::string path = scratch / "run";
  fs::create_directories(path);
  write_file(path + "/old", "old");
  fs::create_directories(path + ".tmp");
  write_file(path + ".tmp/torn", "torn");
  {
    FolderWriter unfinished(path);
    EXPECT_FALSE(fs::exists(unfinished.file("torn")));
  }
  EXPECT_EQ(read_file(path + "/old"), "old");
  FolderWriter writer(path);
  write_file(writer.file("new"), "new");
  writer.commit();
  EXPECT_EQ(read_file(path + "/new"), "new");
  EXPECT_FALSE(fs::exists(path + "/old"));
  EXPECT_FALSE(fs::exists(path + ".tmp"));
}

TEST(FolderWriter, RefusesPathsThatAreNotFolders) {
  const TempFolder scratch;
  write_file(scratch / "file", "x");
  EXPECT_THROW(FolderWriter(scratch / "file"), BadInput);
  EXPECT_THROW(FolderWriter(scratch / "file/below"), BadInput);
  EXPECT_THROW(FolderWriter(""), BadInput);
  EXPECT_EQ(read_file(scratch / "file"), "x");
}

}  // namespace
}  // namespace vitrine::test
