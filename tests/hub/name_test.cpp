// Names, paths and URLs: what is accepted, and what is refused before anything is written.
#include "hub/name.h"

#include "base/digest.h"
#include "base/error.h"
#include "base/temp_folder.h"
#include "hub/byte_ranges.h"
#include "hub/url.h"

namespace vitrine::test {
namespace {

TEST(HubName, HasRepositoryQuantizationAndRevision) {
  const HubName plain = parse_hub_name("hf:Qwen/Qwen3-0.6B");
  EXPECT_EQ(plain.repository, "Qwen/Qwen3-0.6B");
  EXPECT_EQ(plain.what, "");
  EXPECT_EQ(plain.revision, "main");
  EXPECT_EQ(plain.text(), "hf:Qwen/Qwen3-0.6B");
  const HubName full = parse_hub_name("hf:a/b:sub/x.Q4_K_M.gguf@refs/pr/1");
  EXPECT_EQ(full.what, "sub/x.Q4_K_M.gguf");
  EXPECT_EQ(full.revision, "refs/pr/1");
  EXPECT_EQ(full.text(), "hf:a/b:sub/x.Q4_K_M.gguf@refs/pr/1");
  EXPECT_FALSE(is_hub_name("a/b"));
}

TEST(HubName, RefusesOthers) {
  for (const char* const name : {"hf:", "hf:a", "hf:a/", "hf:/b", "hf:a/b/c", "hf:../b", "hf:a/..", "hf:a/.b",
                                 "hf:a/b--c", "hf:a /b", "hf:a/b:", "hf:a/b@", "hf:a/b@../x", "hf:a/b@x//y",
                                 "hf:a/b:/x.gguf", "hf:a/b:x\\y", "hf:a/b:x\ny", "hf:a\n/b", "a/b"}) {
    EXPECT_NE(message_of<BadInput>([&] { parse_hub_name(name); }), "") << name;
  }
}

TEST(HubName, PathsAreInsideTheRepository) {
  for (const char* const path : {"a", "a/b.txt", "..a", "a..", "a b", "ä"}) check_path_inside(path, "x");
  for (const char* const path : {"", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.", "a\\b", "a\tb", "a\x7F"}) {
    EXPECT_NE(message_of<BadInput>([&] { check_path_inside(path, "x"); }), "") << path;
  }
  EXPECT_NE(message_of<BadInput>([&] { check_path_inside(std::string(300, 'a'), "x"); }), "");
}

TEST(HubName, HashesAreHexadecimal) {
  const std::string commit(40, 'a'), hash(64, '0');
  check_hexadecimal(commit, 40, "x");
  check_hexadecimal(hash, 0, "x");
  EXPECT_TRUE(is_commit(commit));
  EXPECT_FALSE(is_commit("main"));
  for (const std::string& bad :
       {std::string("../etc"), std::string(40, 'A'), std::string(40, 'g'), std::string(39, 'a')}) {
    EXPECT_NE(message_of<BadInput>([&] { check_hexadecimal(bad, 40, "x"); }), "") << bad;
    EXPECT_NE(message_of<BadInput>([&] { check_hexadecimal(bad, 0, "x"); }), "") << bad;
  }
}

TEST(HubUrl, RedirectsStayWithHttps) {
  EXPECT_EQ(redirected("https://a.b/c/d?e", "/f"), "https://a.b/f");
  EXPECT_EQ(redirected("https://a.b/c/d", "f"), "https://a.b/c/f");
  EXPECT_EQ(redirected("http://a.b/c", "https://x.y/z?k=v"), "https://x.y/z?k=v");
  EXPECT_EQ(redirected("https://a.b/c", "//x.y/z"), "https://x.y/z");
  EXPECT_THAT(message_of<BadInput>([] { redirected("https://a.b/c?secret", "http://a.b/c?secret"); }),
              testing::AllOf(testing::HasSubstr("from https to http"), testing::Not(testing::HasSubstr("secret"))));
  for (const char* const place : {"ftp://a.b/c", "file:///etc/passwd", "gopher://a"}) {
    EXPECT_NE(message_of<BadInput>([&] { redirected("https://a.b/c", place); }), "") << place;
  }
}

TEST(HubUrl, OriginsHaveSchemeHostAndPort) {
  EXPECT_EQ(origin_of("https://a.b/c"), origin_of("https://a.b:443"));
  EXPECT_NE(origin_of("https://a.b"), origin_of("https://a.b:444"));
  EXPECT_NE(origin_of("https://a.b"), origin_of("http://a.b"));
  EXPECT_NE(origin_of("https://a.b"), origin_of("https://a.b.c"));
  EXPECT_NE(origin_of("https://a.b"), origin_of("https://a.b@c.d"));
  EXPECT_EQ(url_escaped("a b/ä%", true), "a%20b/%C3%A4%25");
  EXPECT_EQ(url_escaped("refs/pr/1", false), "refs%2Fpr%2F1");
}

TEST(ByteRanges, JoinAndTellWhatIsMissing) {
  ByteRanges ranges;
  EXPECT_EQ(ranges.missing(10, 100), (std::vector<ByteRange>{{0, 10}}));
  ranges.add({4, 6});
  ranges.add({8, 9});
  ranges.add({2, 2});
  EXPECT_EQ(ranges.missing(10, 3), (std::vector<ByteRange>{{0, 3}, {3, 4}, {6, 8}, {9, 10}}));
  EXPECT_EQ(ranges.total(), 3);
  EXPECT_EQ(ranges.end_of(5), 6);
  EXPECT_EQ(ranges.end_of(6), 6);
  ranges.add({6, 8});
  EXPECT_EQ(ranges.all().size(), 1u);
  ranges.add({0, 10});
  EXPECT_TRUE(ranges.missing(10, 100).empty());
  EXPECT_EQ(ranges.total(), 10);
}

// `printf abc | git hash-object --stdin` and `printf abc | sha256sum`.
TEST(HubDigest, IsThatOfGitAndOfSha256) {
  const std::string text = "abc";
  Digest git = Digest::git_blob(3), sha = Digest::sha256();
  for (const char& c : text) {
    git.update(std::as_bytes(std::span(&c, 1)));
    sha.update(std::as_bytes(std::span(&c, 1)));
  }
  EXPECT_EQ(git.finish(), "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f");
  EXPECT_EQ(sha.finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace vitrine::test
