#include "base/mapped_file.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/temp_folder.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& path) {
  return message_of<BadInput>([&] { MappedFile::open(path); });
}

TEST(MappedFile, MapsTheBytes) {
  const TempFolder folder;
  std::string bytes(10'000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  write_file(folder / "f", bytes);
  const auto file = MappedFile::open(folder / "f");
  ASSERT_EQ(file->bytes().size(), bytes.size());
  EXPECT_EQ(std::memcmp(file->bytes().data(), bytes.data(), bytes.size()), 0);
  EXPECT_EQ(file->path(), folder / "f");
}

TEST(MappedFile, OutlivesTheRemovalOfTheFile) {
  const TempFolder folder;
  write_file(folder / "f", "abc");
  const auto file = MappedFile::open(folder / "f");
  std::filesystem::remove(folder / "f");
  EXPECT_EQ(static_cast<char>(file->bytes()[2]), 'c');
}

TEST(MappedFile, MapsAnEmptyFile) {
  const TempFolder folder;
  write_file(folder / "f", "");
  EXPECT_TRUE(MappedFile::open(folder / "f")->bytes().empty());
}

TEST(MappedFile, ReadsAheadWhatIsMapped) {
  const auto resident = [] {
    std::int64_t size = 0, pages = 0;
    std::ifstream("/proc/self/statm") >> size >> pages;
    return pages * ::sysconf(_SC_PAGESIZE);
  };
  constexpr std::int64_t kSize = 32 << 20;
  const TempFolder folder;
  write_file(folder / "f", std::string(kSize, 'x'));
  const auto file = MappedFile::open(folder / "f");
  const std::int64_t before = resident();
  MappedFile::read_ahead(file->bytes());
  EXPECT_GT(resident() - before, kSize / 2) << "Linux 5.14 is needed";
  MappedFile::release(file->bytes());
  EXPECT_LT(resident() - before, kSize / 2);
  EXPECT_EQ(file->text().back(), 'x');
  const std::string other(kSize, 'y');
  MappedFile::read_ahead(std::as_bytes(std::span(other)));
  EXPECT_EQ(other.back(), 'y');
}

TEST(MappedFile, ClosesTheDescriptor) {
  const TempFolder folder;
  write_file(folder / "f", "abc");
  const auto count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = count();
  const auto file = MappedFile::open(folder / "f");
  EXPECT_NE(refusal(folder.path()), "");
  EXPECT_EQ(count(), before);
}

TEST(MappedFile, RefusesPathsThatAreNotRegularFiles) {
  const TempFolder folder;
  EXPECT_THAT(refusal(folder / "missing"), HasSubstr(folder / "missing"));
  EXPECT_THAT(refusal(""), HasSubstr("cannot open"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("got a folder"));
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(refusal(folder / "fifo"), HasSubstr("expected a regular file")) << "without waiting for a writer";
  EXPECT_THAT(refusal("/dev/zero"), HasSubstr("expected a regular file"));
  std::filesystem::create_symlink("loop", folder / "loop");
  EXPECT_THAT(refusal(folder / "loop"), HasSubstr("loop"));
  EXPECT_THAT(refusal(folder / std::string(300, 'x')), HasSubstr("cannot open"));
}

TEST(MappedFile, ReadsAPipeAnewAtEachCall) {
  const TempFolder folder;
  const std::string path = folder / "fifo";
  std::shared_ptr<const MappedFile> first;
  for (const char letter : {'x', 'y'}) {
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const std::string text(100'000, letter);
    std::jthread writer([&] { std::ofstream(path) << text; });
    const auto file = MappedFile::open_or_read(path);
    EXPECT_EQ(file->text(), text);
    if (!first) first = file;
    ASSERT_EQ(::unlink(path.c_str()), 0);
  }
  EXPECT_EQ(first->text(), std::string(100'000, 'x')) << "the caller's file stays";
}

TEST(MappedFile, ReportsMissingPermission) {
  const TempFolder folder;
  write_file(folder / "f", "abc");
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  std::filesystem::permissions(folder / "f", std::filesystem::perms::none);
  const WithoutRights nobody;
  if (!nobody.works()) GTEST_SKIP() << "this user cannot give up its rights";
  EXPECT_THAT(refusal(folder / "f"), HasSubstr("ermission"));
}

TEST(MappedFile, ReportsMissingAddressSpace) {
  const TempFolder folder;
  write_file(folder / "f", "");
  if (::truncate((folder / "f").c_str(), std::int64_t{1} << 42) != 0) GTEST_SKIP() << "no sparse files here";
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &old), 0);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs the address space";
#endif
  const rlimit less{std::uint64_t{1} << 40, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &less), 0);
  const std::string message = message_of<OutOfCapacity>([&] { MappedFile::open(folder / "f"); });
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &old), 0);
  EXPECT_THAT(message, HasSubstr("cannot map"));
}

}  // namespace
}  // namespace vitrine::test
