// The store's thread and queue, and the hashes of files that it keeps.
#include "store/prefix_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "base/temp_folder.h"
#include "store/content_hash.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::int64_t kLarge = std::int64_t{1} << 30;
const UseTime kNow = std::chrono::system_clock::now();

BlockName name(std::uint64_t number) {
  Digest digest = Digest::sha256();
  digest.update(number);
  return digest.finish_sha256();
}
BlockBytes filled(std::size_t size, std::byte value) {
  BlockBytes bytes(size);
  std::ranges::fill(bytes.span(), value);
  return bytes;
}

TEST(PrefixStore, WritesWhatIsInTheQueueBeforeItEnds) {
  const TempFolder temp;
  std::vector<std::string> notes;
  const auto note = [&](const std::string& text) { notes.push_back(text); };
  {
    PrefixStore store(temp / "s", kLarge, note);
    for (std::uint64_t i = 0; i < 20; ++i) store.write(name(i), filled(100, std::byte(i)), kNow);
  }
  PrefixStore store(temp / "s", kLarge, note);
  for (std::uint64_t i = 0; i < 20; ++i) {
    std::vector<std::byte> bytes(100);
    ASSERT_TRUE(store.read(name(i), bytes, kNow));
    EXPECT_EQ(bytes, std::vector<std::byte>(100, std::byte(i)));
  }
  EXPECT_EQ(store.errors(), 0);
  EXPECT_THAT(notes, testing::IsEmpty());
}

TEST(PrefixStore, CountsErrorsAndNotesTheFirst) {
  const TempFolder temp;
  std::vector<std::string> notes;
  PrefixStore store(temp / "s", kLarge, [&](const std::string& text) { notes.push_back(text); });
  store.write(name(1), filled(100, std::byte(1)), kNow);
  store.flush();
  write_file(temp / "s" + "/" + hex_of(name(1)) + ".block", "nothing");
  std::vector<std::byte> bytes(100);
  EXPECT_FALSE(store.read(name(1), bytes, kNow));
  EXPECT_FALSE(store.read(name(1), bytes, kNow)) << "it has been removed";
  EXPECT_EQ(store.errors(), 1);
  fs::remove_all(temp / "s");
  for (std::uint64_t i = 2; i < 5; ++i) store.write(name(i), filled(100, std::byte(i)), kNow);
  store.flush();
  EXPECT_EQ(store.errors(), 4);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], testing::AllOf(HasSubstr("prompts are not stored"), HasSubstr("No such file")));
}

TEST(PrefixStore, AFullQueueTakesNoMore) {
  const TempFolder temp;
  PrefixStore store(temp / "s", kLarge, {});
  const std::size_t half = std::size_t{129} << 20;
  EXPECT_TRUE(store.has_space(half));
  BlockBytes first = filled(half, std::byte(1)), second = filled(half, std::byte(2));
  store.write(name(1), std::move(first), kNow);
  EXPECT_FALSE(store.has_space(half)) << "the first one cannot have been written yet";
  store.write(name(2), std::move(second), kNow);
  store.flush();
  EXPECT_TRUE(store.has(name(1)));
  EXPECT_FALSE(store.has(name(2)));
  EXPECT_TRUE(store.has_space(half));
}

Sha256 hash_of(const std::string& path, PrefixStore& store) {
  ThreadPool pool(2);
  const std::shared_ptr<const MappedFile> files[] = {MappedFile::open(path)};
  return content_hash(files, pool, store);
}

TEST(ContentHash, DependsOnTheContentAlone) {
  const TempFolder temp;
  PrefixStore store(temp / "s", kLarge, {});
  const std::string text(40'000'000, 'x');
  write_file(temp / "a", text);
  write_file(temp / "b", text);
  const Sha256 hash = hash_of(temp / "a", store);
  EXPECT_EQ(hash_of(temp / "b", store), hash);
  for (const std::size_t at : {std::size_t{0}, std::size_t{1} << 24, text.size() - 1}) {
    std::string other = text;
    other[at] = 'y';
    write_file(temp / "b", other);
    EXPECT_NE(hash_of(temp / "b", store), hash) << at;
  }
  write_file(temp / "b", text + "x");
  EXPECT_NE(hash_of(temp / "b", store), hash);
}

TEST(ContentHash, AFileThatChangesIsReadAgain) {
  const TempFolder temp;
  PrefixStore store(temp / "s", kLarge, {});
  write_file(temp / "a", "some weights");
  const Sha256 hash = hash_of(temp / "a", store);
  store.flush();
  EXPECT_EQ(store.bytes(), 0) << "it is too new: it may change without a change of its times";
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  EXPECT_EQ(hash_of(temp / "a", store), hash);
  store.flush();
  EXPECT_EQ(store.bytes(), 4096);
  EXPECT_EQ(hash_of(temp / "a", store), hash);
  struct stat info {};
  ASSERT_EQ(::stat((temp / "a").c_str(), &info), 0);
  std::ofstream(temp / "a", std::ios::in | std::ios::binary).write("more", 4);
  const timespec times[] = {info.st_atim, info.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, (temp / "a").c_str(), times, 0), 0);
  EXPECT_NE(hash_of(temp / "a", store), hash) << "the same size and time of modification";
}

}  // namespace
}  // namespace vitrine::test
