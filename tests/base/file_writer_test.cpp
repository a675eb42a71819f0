#include "base/file_writer.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <optional>

#include "base/error.h"
#include "base/temp_folder.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(FileWriter, CreatesTheFileAtTheCommit) {
  const TempFolder folder;
  FileWriter writer(folder / "f");
  writer.write(bytes_of("abc"));
  EXPECT_FALSE(std::filesystem::exists(folder / "f"));
  writer.commit();
  EXPECT_EQ(read_file(folder / "f"), "abc");
  EXPECT_EQ(folder.entries(), 1) << "the temporary file was renamed";
}

TEST(FileWriter, ChangesNothingWithoutACommit) {
  const TempFolder folder;
  write_file(folder / "old", "old");
  {
    FileWriter old(folder / "old"), fresh(folder / "fresh");
    old.write(bytes_of("new"));
    fresh.write(bytes_of("new"));
    EXPECT_EQ(read_file(folder / "old"), "old");
  }
  EXPECT_EQ(read_file(folder / "old"), "old");
  EXPECT_EQ(folder.entries(), 1) << "no temporary file is left";
}

TEST(FileWriter, ReplacesTheOldFileAtTheCommit) {
  const TempFolder folder;
  write_file(folder / "f", "a long old text");
  FileWriter writer(folder / "f");
  writer.write(bytes_of("____new"));
  writer.write_at(0, bytes_of("head"));
  writer.write(bytes_of("!"));
  writer.commit();
  EXPECT_EQ(read_file(folder / "f"), "headnew!");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(FileWriter, WritesAnEmptyFile) {
  const TempFolder folder;
  FileWriter writer(folder / "f");
  writer.commit();
  EXPECT_EQ(read_file(folder / "f"), "");
}

TEST(FileWriter, WritesAText) {
  const TempFolder folder;
  write_file(folder / "f", "old");
  vitrine::write_file(folder / "f", "new");
  EXPECT_EQ(read_file(folder / "f"), "new");
  EXPECT_EQ(folder.entries(), 1) << "the temporary file was renamed";
}

TEST(FileWriter, AppliesTheUmask) {
  const TempFolder folder;
  const mode_t before = ::umask(022);
  FileWriter writer(folder / "f");
  writer.commit();
  ::umask(before);
  struct stat info {};
  ASSERT_EQ(::stat((folder / "f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644u);
}

TEST(FileWriter, KeepsTwoWritersOfOneFileApart) {
  const TempFolder folder;
  FileWriter a(folder / "f"), b(folder / "f");
  a.write(bytes_of("aaaa"));
  b.write(bytes_of("bb"));
  a.commit();
  EXPECT_EQ(read_file(folder / "f"), "aaaa");
  b.commit();
  EXPECT_EQ(read_file(folder / "f"), "bb");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(FileWriter, RefusesPathsThatCannotBeWritten) {
  const TempFolder folder;
  const auto refusal = [](const std::string& path) { return message_of<BadInput>([&] { FileWriter writer(path); }); };
  EXPECT_THAT(refusal(folder / "missing/f"), HasSubstr("missing/f"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("got a folder"));
  EXPECT_THAT(refusal(""), HasSubstr("expected"));
  EXPECT_THAT(refusal(folder / std::string(255, 'x')), HasSubstr("cannot write"));
  write_file(folder / "f", "");
  EXPECT_THAT(refusal(folder / "f/g"), HasSubstr("f/g"));
}

TEST(FileWriter, WritesTheTargetOfALink) {
  const TempFolder folder;
  write_file(folder / "target", "old");
  std::filesystem::create_symlink(folder / "target", folder / "link");
  FileWriter writer(folder / "link");
  writer.write(bytes_of("new"));
  writer.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "target"), "new");
  EXPECT_EQ(folder.entries(), 2);
}

/// A rename would replace a device, for root even /dev/null, by a regular file.
TEST(FileWriter, RefusesADeviceOrFifo) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/full", folder / "full");
  for (const char* name : {"fifo", "full"}) {
    EXPECT_THAT(message_of<BadInput>([&] { FileWriter(folder / name).commit(); }),
                HasSubstr("expected a regular file"));
  }
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "fifo"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "full"));
  EXPECT_EQ(folder.entries(), 2);
}

TEST(FileWriter, FailsIfItsPathBecomesAFolder) {
  const TempFolder folder;
  FileWriter writer(folder / "f");
  std::filesystem::create_directory(folder / "f");
  EXPECT_THAT(message_of<BadInput>([&] { writer.commit(); }), HasSubstr("irectory"));
  EXPECT_EQ(folder.entries(), 1) << "the temporary file is removed";
}

TEST(FileWriter, ReportsMissingPermission) {
  const TempFolder folder;
  const WithoutRights nobody;
  if (!nobody.works()) GTEST_SKIP() << "this user cannot give up its rights";
  if (::access(folder.path().c_str(), W_OK) == 0 && ::geteuid() != 65534) GTEST_SKIP() << "not run as root";
  EXPECT_THAT(message_of<BadInput>([&] { FileWriter writer(folder / "f"); }), HasSubstr("ermission"));
}

/// Simulates a full disk by a limit of 4096 bytes on the size of files.
TEST(FileWriter, KeepsTheOldFileIfTheDiskIsFull) {
  const TempFolder folder;
  write_file(folder / "f", "old");
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit less{4096, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &less), 0);
  std::string by_write, by_write_at;
  {
    FileWriter writer(folder / "f");
    by_write = message_of<OutOfCapacity>([&] { writer.write(bytes_of(std::string(10'000'000, 'x'))); });
    by_write_at = message_of<OutOfCapacity>([&] { writer.write_at(5000, bytes_of("x")); });
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, previous);
  EXPECT_THAT(by_write, HasSubstr("cannot write"));
  EXPECT_THAT(by_write_at, HasSubstr("cannot write"));
  EXPECT_EQ(read_file(folder / "f"), "old");
  EXPECT_EQ(folder.entries(), 1);
}

}  // namespace
}  // namespace vitrine::test
