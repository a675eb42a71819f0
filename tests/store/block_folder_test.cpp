// Folders of blocks: what is read is what was written, whatever happens to the files, and they stay within their size.
#include "store/block_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/temp_folder.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Found = BlockFolder::Found;

constexpr std::int64_t kLarge = std::int64_t{1} << 30;

BlockName name(std::uint64_t number) {
  Digest digest = Digest::sha256();
  digest.update(number);
  return digest.finish_sha256();
}
std::string file(std::uint64_t number) { return hex_of(name(number)) + ".block"; }

/// The content of a block, which depends on its number.
std::vector<std::byte> content(std::uint64_t number, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(number * 31 + i * 7);
  return bytes;
}

/// Times of use, a second apart.
UseTime at(std::int64_t seconds) { return UseTime(std::chrono::seconds(1'000'000'000 + seconds)); }

void write(BlockFolder& folder, std::uint64_t number, std::size_t size = 50, std::int64_t seconds = 0) {
  folder.write(name(number), content(number, size), at(seconds));
}
Found read(BlockFolder& folder, std::uint64_t number, std::size_t size = 50, std::int64_t seconds = 0) {
  std::vector<std::byte> bytes(size);
  const Found found = folder.read(name(number), bytes, at(seconds));
  if (found == Found::block) {
    EXPECT_EQ(bytes, content(number, size));
  }
  return found;
}

std::int64_t bytes_in(const std::string& path) {
  std::int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(path)) {
    const bool is_counted =
        entry.symlink_status().type() == fs::file_type::regular && entry.path().filename() != "lock";
    if (is_counted) bytes += (static_cast<std::int64_t>(entry.file_size()) + 4095) / 4096 * 4096;
  }
  return bytes;
}
int mode_of(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

TEST(BlockFolder, ReadsWhatWasWrittenAlsoAfterReopening) {
  const TempFolder temp;
  {
    BlockFolder folder(temp / "s", kLarge);
    EXPECT_EQ(read(folder, 1), Found::nothing);
    write(folder, 1);
    write(folder, 2, 9000);
    EXPECT_EQ(folder.bytes(), 4096 + 12288);
    EXPECT_EQ(folder.bytes(), bytes_in(temp / "s"));
  }
  BlockFolder folder(temp / "s", kLarge);
  EXPECT_EQ(folder.bytes(), 4096 + 12288);
  EXPECT_TRUE(folder.has(name(1)));
  EXPECT_EQ(read(folder, 1), Found::block);
  EXPECT_EQ(read(folder, 2, 9000), Found::block);
  EXPECT_FALSE(folder.has(name(3)));
}

TEST(BlockFolder, NobodyElseCanReadIt) {
  const TempFolder temp;
  ASSERT_EQ(::mkdir((temp / "open").c_str(), 0755), 0);
  for (const char* const path : {"new", "open"}) {
    BlockFolder folder(temp / path, kLarge);
    write(folder, 1);
    EXPECT_EQ(mode_of(temp / path), 0700) << path;
    EXPECT_EQ(mode_of(temp / path + "/" + file(1)), 0600) << path;
  }
}

TEST(BlockFolder, RefusesFoldersOfOthers) {
  const TempFolder temp;
  const auto open = [&] { BlockFolder folder(temp / "s", kLarge); };
  ASSERT_EQ(::mkdir((temp / "s").c_str(), 0700), 0);
  for (const mode_t mode : {0720, 0702, 0777}) {
    ASSERT_EQ(::chmod((temp / "s").c_str(), mode), 0);
    EXPECT_THAT(message_of<BadInput>(open), HasSubstr("expected a folder that others cannot write"));
  }
  ASSERT_EQ(::chmod((temp / "s").c_str(), 0700), 0);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown((temp / "s").c_str(), 65534, 65534), 0);
    EXPECT_THAT(message_of<BadInput>(open), HasSubstr("got one of user 65534"));
  }
  fs::remove(temp / "s");
  write_file(temp / "s", "a file");
  EXPECT_THAT(message_of<BadInput>(open), HasSubstr("cannot open the folder"));
}

TEST(BlockFolder, EveryBitOfAFileIsChecked) {
  const TempFolder temp;
  BlockFolder folder(temp / "s", kLarge);
  write(folder, 1, 5);
  const std::string path = temp / "s" + "/" + file(1), right = read_file(path);
  for (std::size_t bit = 0; bit < 8 * right.size(); ++bit) {
    std::string wrong = right;
    wrong[bit / 8] = static_cast<char>(wrong[bit / 8] ^ (1 << bit % 8));
    write_file(path, wrong);
    ASSERT_EQ(read(folder, 1, 5), Found::wrong) << bit;
    ASSERT_FALSE(fs::exists(path)) << bit;
  }
  for (std::size_t size = 0; size < right.size(); ++size) {
    write_file(path, right.substr(0, size));
    ASSERT_EQ(read(folder, 1, 5), Found::wrong) << size;
  }
  write_file(path, right + "x");
  EXPECT_EQ(read(folder, 1, 5), Found::wrong);
  write_file(path, right);
  EXPECT_EQ(read(folder, 1, 6), Found::wrong) << "a block of another size";
  write_file(path, right);
  EXPECT_EQ(read(folder, 1, 5), Found::block);
}

TEST(BlockFolder, ABlockIsOnlyFoundUnderItsName) {
  const TempFolder temp;
  BlockFolder folder(temp / "s", kLarge);
  write(folder, 1);
  fs::copy_file(temp / "s" + "/" + file(1), temp / "s" + "/" + file(2));
  EXPECT_EQ(read(folder, 2), Found::wrong);
  EXPECT_EQ(read(folder, 2), Found::nothing);
  EXPECT_EQ(read(folder, 1), Found::block);
}

TEST(BlockFolder, OtherThingsThanFilesAreNoBlocks) {
  const TempFolder temp;
  BlockFolder folder(temp / "s", kLarge);
  write(folder, 1);
  const auto path = [&](std::uint64_t number) { return temp / "s" + "/" + file(number); };
  fs::rename(path(1), temp / "elsewhere");
  fs::create_symlink(temp / "elsewhere", path(1));
  EXPECT_EQ(read(folder, 1), Found::wrong);
  EXPECT_TRUE(fs::exists(temp / "elsewhere")) << "the link alone is removed";
  EXPECT_FALSE(fs::is_symlink(path(1)));
  fs::create_directory(path(2));
  EXPECT_EQ(read(folder, 2), Found::wrong);
  write(folder, 2);
  EXPECT_EQ(read(folder, 2), Found::block);
  fs::create_directories(path(3) + "/inner");
  EXPECT_EQ(read(folder, 3), Found::wrong);
  EXPECT_THAT(message_of<BadInput>([&] { write(folder, 3); }), HasSubstr("cannot rename into place"));
  ASSERT_EQ(::mkfifo(path(4).c_str(), 0600), 0);
  EXPECT_EQ(read(folder, 4), Found::wrong) << "and does not wait for a writer";
  EXPECT_EQ(bytes_in(temp / "s"), 4096) << "block 2";
}

TEST(BlockFolder, TheLeastRecentlyUsedLeave) {
  const TempFolder temp;
  BlockFolder folder(temp / "s", 8 * 4096);
  for (std::uint64_t i = 0; i < 8; ++i) write(folder, i, 50, static_cast<std::int64_t>(i));
  EXPECT_EQ(read(folder, 0, 50, 100), Found::block);
  EXPECT_TRUE(folder.touch(name(1), at(101)));
  EXPECT_FALSE(folder.touch(name(99), at(101)));
  write(folder, 8, 50, 102);
  EXPECT_LE(folder.bytes(), 8 * 4096);
  EXPECT_EQ(folder.bytes(), bytes_in(temp / "s"));
  std::set<std::uint64_t> there;
  for (std::uint64_t i = 0; i < 9; ++i) {
    if (folder.has(name(i))) there.insert(i);
  }
  EXPECT_THAT(there, testing::IsSupersetOf(std::vector<std::uint64_t>{0, 1, 7, 8}));
  EXPECT_FALSE(there.contains(2));
  EXPECT_THAT(message_of<OutOfCapacity>([&] { write(folder, 9, 9 * 4096); }), HasSubstr("a block has"));
  BlockFolder smaller(temp / "s", 2 * 4096);
  EXPECT_LE(bytes_in(temp / "s"), 2 * 4096) << "opening with a smaller size removes the rest";
}

TEST(BlockFolder, SeveralWritersStayWithinTheSize) {
  const TempFolder temp;
  constexpr std::int64_t kMost = 40 * 4096;
  std::vector<std::thread> threads;
  for (std::uint64_t writer = 0; writer < 3; ++writer) {
    threads.emplace_back([&temp, writer] {
      BlockFolder folder(temp / "s", kMost);
      for (std::uint64_t i = 0; i < 60; ++i) {
        write(folder, writer * 1000 + i, 300, static_cast<std::int64_t>(i));
        read(folder, (writer + 1) % 3 * 1000 + i, 300, static_cast<std::int64_t>(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(bytes_in(temp / "s"), kMost);
  EXPECT_GE(bytes_in(temp / "s"), kMost / 2);
}

TEST(BlockFolder, AKilledWriterLeavesWholeBlocks) {
  const TempFolder temp;
  constexpr std::int64_t kMost = 60 * 65536;
  for (int round = 0; round < 12; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      BlockFolder folder(temp / "s", kMost);
      for (std::uint64_t i = 0;; ++i) write(folder, i % 100, 60000, static_cast<std::int64_t>(i));
    }
    ASSERT_GT(child, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + 7 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    BlockFolder folder(temp / "s", kMost);
    for (std::uint64_t i = 0; i < 100; ++i) EXPECT_NE(read(folder, i, 60000), Found::wrong);
    for (const auto& entry : fs::directory_iterator(temp / "s")) {
      EXPECT_FALSE(entry.path().filename().string().starts_with("part-")) << entry.path();
    }
    EXPECT_LE(bytes_in(temp / "s"), kMost);
  }
}

TEST(BlockFolder, AFolderThatVanishesHasNoBlocks) {
  const TempFolder temp;
  BlockFolder folder(temp / "s", kLarge);
  write(folder, 1);
  fs::remove_all(temp / "s");
  EXPECT_EQ(read(folder, 1), Found::nothing);
  EXPECT_FALSE(folder.has(name(1)));
  EXPECT_THAT(message_of<BadInput>([&] { write(folder, 2); }), HasSubstr("cannot open"));
}

TEST(BlockFolder, AFullDiskIsAnErrorOfTheWriteAlone) {
  const TempFolder temp;
  BlockFolder folder(temp / "s", kLarge);
  write(folder, 1);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{10000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = message_of<OutOfCapacity>([&] { write(folder, 2, 50000); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, HasSubstr("cannot write"));
  EXPECT_EQ(read(folder, 2, 50000), Found::nothing);
  EXPECT_EQ(read(folder, 1), Found::block);
  EXPECT_EQ(bytes_in(temp / "s"), 4096) << "no part of the file is left";
}

}  // namespace
}  // namespace vitrine::test
