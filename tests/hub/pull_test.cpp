// Pulls from a hub in this process: the cache that they leave, and a hub that misbehaves.
#include "hub/pull.h"

#include <chrono>

#include "base/error.h"
#include "base/json.h"
#include "base/temp_folder.h"
#include "faulty_hub.h"
#include "hub/part_file.h"
#include "hub/repository.h"
#include "hub/stored_models.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kBig = "model.safetensors";
constexpr std::size_t kMiB = 1 << 20;

std::string noise(std::size_t size) {
  std::mt19937_64 random(size);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

class Pull : public testing::Test {
 protected:
  Pull() {
    hub_.add("config.json", "{}");
    hub_.add("README.md", "text");
    hub_.add(kBig, noise(5 * kMiB + 17));
  }

  PullResult pull_it(const HubAccess& access = {}, const std::string& name = "hf:o/n") {
    return pull(parse_hub_name(name), HubWanted::model, access);
  }
  template <class E = Error>
  std::string refused(const std::string& name = "hf:o/n") {
    return message_of<E>([&] { pull_it({}, name); });
  }
  std::string blob() const { return hub_.repository() + "/blobs/" + hub_.etag(kBig); }
  std::string part() const { return blob() + ".vitrine-part"; }
  std::string snapshot() const { return hub_.repository() + "/snapshots/" + FaultyHub::kCommit; }
  void expect_right() { EXPECT_EQ(hash_of(read_file(snapshot() + "/" + kBig), true), hub_.etag(kBig)); }
  /// Changes the replies that carry the content of the large file.
  void change_content(std::function<void(HubReply&, int)> change) {
    hub_.change = [change, n = std::make_shared<std::atomic<int>>(0)](const HubRequest& request, HubReply& reply) {
      if (request.at_store && request.method == "GET") change(reply, (*n)++);
    };
  }

  TempFolder folder_;
  FaultyHub hub_{folder_.path()};
};

TEST_F(Pull, LeavesTheCacheOfHuggingfaceHub) {
  const PullResult result = pull_it();
  EXPECT_EQ(result.path, snapshot());
  EXPECT_EQ(result.commit, FaultyHub::kCommit);
  EXPECT_EQ(result.bytes, static_cast<std::int64_t>(5 * kMiB + 19));
  EXPECT_EQ(result.fetched_bytes, result.bytes);
  expect_right();
  EXPECT_EQ(fs::read_symlink(snapshot() + "/config.json"), "../../blobs/" + hub_.etag("config.json"));
  EXPECT_EQ(read_file(hub_.repository() + "/refs/main"), FaultyHub::kCommit);
  const Json tree = Json::parse(read_file(hub_.repository() + "/trees/" + FaultyHub::kCommit + ".json"));
  EXPECT_EQ(tree["format_version"], 1);
  EXPECT_EQ(tree["files"][kBig]["lfs_sha256"], hub_.etag(kBig));
  EXPECT_EQ(tree["files"]["README.md"]["size"], 4);
  EXPECT_TRUE(read_file(hub_.cache() + "/CACHEDIR.TAG").starts_with("Signature: 8a477f597d28d172789f06886806bc55"));
  EXPECT_TRUE(fs::exists(hub_.cache() + "/.locks/models--o--n/" + hub_.etag(kBig) + ".lock"));
  EXPECT_FALSE(fs::exists(part()));
  EXPECT_FALSE(fs::exists(snapshot() + "/README.md"));
}

TEST_F(Pull, FetchesNothingTwice) {
  pull_it();
  const std::int64_t before = hub_.sent();
  const PullResult again = pull_it();
  EXPECT_EQ(again.fetched_bytes, 0);
  EXPECT_TRUE(std::ranges::all_of(again.files, &PulledFile::cached));
  EXPECT_LT(hub_.sent() - before, 1000);
  const std::size_t n = hub_.requests().size();
  EXPECT_EQ(pull_it({}, std::string("hf:o/n@") + FaultyHub::kCommit).path, snapshot());
  HubAccess offline;
  offline.offline = true;
  EXPECT_EQ(pull_it(offline).path, snapshot());
  EXPECT_EQ(hub_.requests().size(), n);  // neither asks the hub
  EXPECT_THAT(message_of<BadInput>([&] { pull_it(offline, "hf:o/other"); }), HasSubstr("offline"));
  EXPECT_THAT(message_of<BadInput>([&] { pull_it(offline, "hf:o/n@other"); }), HasSubstr("offline"));
  fs::remove(blob());
  EXPECT_THAT(message_of<BadInput>([&] { pull_it(offline); }), HasSubstr(kBig));
}

TEST_F(Pull, ADryRunFetchesNothing) {
  const PullResult result = pull(parse_hub_name("hf:o/n"), HubWanted::model, {}, true);
  EXPECT_EQ(result.files.size(), 2u);
  EXPECT_FALSE(fs::exists(hub_.cache()));
}

TEST_F(Pull, ATokenizerNeedsNoWeights) {
  hub_.add("tokenizer.json", "{}");
  const std::string path = local_path("hf:o/n", HubWanted::tokenizer, {});
  EXPECT_EQ(path, snapshot());
  EXPECT_EQ(hub_.count(kBig, "GET") + hub_.count(kBig, "HEAD"), 0);
  EXPECT_EQ(local_path("some/path", HubWanted::tokenizer, {}), "some/path");
}

TEST_F(Pull, ATokenGoesToTheHubAlone) {
  hub_.set("HF_TOKEN", "hf_secret");
  hub_.change = [](const HubRequest& request, HubReply& reply) {
    if (!request.has_token && !request.at_store) reply = {401, {}};
  };
  pull_it();
  for (const HubRequest& request : hub_.requests()) EXPECT_EQ(request.has_token, !request.at_store) << request.path;
}

TEST_F(Pull, TheFileOfATokenIsRead) {
  write_file(hub_.folder() + "/token", "hf_other\n");
  hub_.set("HF_TOKEN_PATH", hub_.folder() + "/token");
  pull_it();
  EXPECT_TRUE(hub_.requests().front().has_token);
}

TEST_F(Pull, RefusalsSayWhatToDo) {
  const auto refuse_with = [&](int status, const std::string& code) {
    hub_.change = [=](const HubRequest&, HubReply& reply) {
      reply = {status, {}};
      if (!code.empty()) reply.fields["X-Error-Code"] = code;
    };
    return refused<BadInput>();
  };
  EXPECT_THAT(refuse_with(401, "RepoNotFound"), HasSubstr("check the name"));
  EXPECT_THAT(refuse_with(401, ""), HasSubstr("set HF_TOKEN"));
  EXPECT_THAT(refuse_with(403, "GatedRepo"), HasSubstr("accept the terms at " + hub_.endpoint() + "/o/n"));
  EXPECT_THAT(refuse_with(403, ""), HasSubstr("terms must be accepted at " + hub_.endpoint() + "/o/n"));
  EXPECT_THAT(refuse_with(404, "RevisionNotFound"), HasSubstr("no revision \"main\""));
  hub_.set("HF_TOKEN", "hf_secret");
  EXPECT_THAT(refuse_with(401, ""),
              testing::AllOf(HasSubstr("does not accept the token"), Not(HasSubstr("hf_secret"))));
}

TEST_F(Pull, WaitsAsLongAsTheServerSays) {
  std::atomic<int> n = 0;
  hub_.change = [&](const HubRequest&, HubReply& reply) {
    if (n++ % 2 == 0)
      reply = {n % 4 == 1 ? 429 : 503, {{"Retry-After", n < 3 ? "1" : "Sun, 06 Nov 1994 08:49:37 GMT"}}};
  };
  const auto begun = std::chrono::steady_clock::now();
  pull_it();
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(900));
  expect_right();
  hub_.change = [&](const HubRequest&, HubReply& reply) { reply = {503, {{"Retry-After", "100000"}}}; };
  EXPECT_THAT(message_of<HubUnreachable>([&] { pull_it({}, "hf:o/n@x"); }), HasSubstr("100000"));
}

TEST_F(Pull, GoesOnAfterBodiesThatEndEarlyOrStall) {
  change_content([](HubReply& reply, int n) {
    if (n == 0) reply.cut = reply.body.size() / 2;
    if (n == 1) reply.stall = reply.body.size() / 3;
    if (n == 2) reply = {500, {}};
  });
  const PullResult result = pull_it();
  expect_right();
  EXPECT_LE(result.fetched_bytes, result.bytes + result.bytes / 10);
}

TEST_F(Pull, ResolvesALinkThatHasExpired) {
  change_content([](HubReply& reply, int n) {
    if (n < 3) reply = {n == 1 ? 410 : 403, {}};
  });
  pull_it();
  expect_right();
  EXPECT_GT(hub_.count(kBig, "HEAD"), 1);
  fs::remove_all(hub_.cache());
  change_content([](HubReply& reply, int) { reply = {403, {}}; });
  EXPECT_NE(refused(), "");
}

TEST_F(Pull, TakesOneStreamFromAServerWithoutRanges) {
  hub_.change = [&](const HubRequest& request, HubReply& reply) {
    if (request.at_store && request.method == "GET") reply = {200, {}, noise(5 * kMiB + 17)};
  };
  pull_it();
  expect_right();
}

TEST_F(Pull, WrongContentIsDeleted) {
  const auto expect_refused = [&](const std::function<void(HubReply&, int)>& change, const std::string& why) {
    change_content(change);
    EXPECT_THAT(refused<BadCheckpoint>(), HasSubstr(why));
    EXPECT_FALSE(fs::exists(blob()));
    EXPECT_FALSE(fs::exists(snapshot() + "/" + kBig));
  };
  expect_refused([](HubReply& reply, int n) { reply.body[n == 0 ? 7 : 0] ^= 1; }, "hash");
  EXPECT_FALSE(fs::exists(part()));
  expect_refused([](HubReply& reply, int) { reply.fields["Content-Range"] += "0"; }, "bytes, the server has");
  expect_refused([](HubReply& reply, int) { reply = {416, {}}; }, "the server has fewer");
  expect_refused([](HubReply& reply, int) { reply.body += "more"; }, "the server sends more");
  fs::remove_all(hub_.cache());
  hub_.change = [](const HubRequest& request, HubReply& reply) {
    if (request.path.ends_with("config.json")) reply.body = "[]";
  };
  EXPECT_THAT(refused<BadCheckpoint>(), HasSubstr("hash"));
}

TEST_F(Pull, APartGoesOnWhereItWasSynced) {
  HubAccess access;
  access.report = [&](const HubProgress& progress) {
    if (progress.text == kBig && progress.done > static_cast<std::int64_t>(3 * kMiB)) throw Interrupted();
  };
  EXPECT_THROW(pull_it(access), Interrupted);
  EXPECT_GT(part_bytes(part()), static_cast<std::int64_t>(2 * kMiB));
  EXPECT_FALSE(fs::exists(blob()));
  const PullResult result = pull_it();
  expect_right();
  EXPECT_GT(result.resumed_bytes, static_cast<std::int64_t>(3 * kMiB));
  EXPECT_EQ(result.resumed_bytes + result.fetched_bytes + 2, result.bytes);
}

TEST_F(Pull, APartWithWrongBytesIsFetchedAgain) {
  HubAccess access;
  access.report = [&](const HubProgress& progress) {
    if (progress.text == kBig && progress.done > static_cast<std::int64_t>(3 * kMiB)) throw Interrupted();
  };
  EXPECT_THROW(pull_it(access), Interrupted);
  std::fstream file(part(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(10);
  file << "wrong";
  file.close();
  pull_it();
  expect_right();
}

TEST_F(Pull, RangesAreAsFastAsTheirNumber) {
  hub_.add(kBig, noise(8 * kMiB));
  hub_.rate = 3 * static_cast<std::int64_t>(kMiB);
  const auto seconds_with = [&](int jobs) {
    using Clock = std::chrono::steady_clock;
    fs::remove_all(hub_.cache());
    Clock::time_point begun, ended;
    HubAccess access;
    access.jobs = jobs;
    access.report = [&](const HubProgress& p) {
      if (p.text == kBig) (p.event == HubProgress::Event::begin ? begun : ended) = Clock::now();
    };
    pull_it(access);
    expect_right();
    return std::chrono::duration<double>(ended - begun).count();
  };
  const double one = seconds_with(1), four = seconds_with(4);
  EXPECT_GT(one, 2 * four);  // 4, less what the disk takes to sync
}

TEST_F(Pull, WhatIsNoNameIsRefusedBeforeAnythingIsWritten) {
  const auto expect_refused = [&](const std::function<void(const HubRequest&, HubReply&)>& change) {
    hub_.change = change;
    EXPECT_NE(refused<Error>(), "");
    EXPECT_FALSE(fs::exists(hub_.repository()));
    EXPECT_EQ(std::distance(fs::directory_iterator(hub_.folder()), {}), 0);
  };
  const auto in_tree = [](const std::string& key, const Json& value) {
    return [=](const HubRequest& request, HubReply& reply) {
      if (request.path.find("/tree/") == std::string::npos) return;
      Json rows = Json::parse(reply.body);
      rows[1][key] = value;
      reply.body = rows.dump();
    };
  };
  for (const char* const path :
       {"../evil", "/etc/evil", "a/../../evil", "a\\b", "a//b", "./a", "", "model.safetensors"}) {
    SCOPED_TRACE(path);
    expect_refused(in_tree("path", path));
  }
  expect_refused(in_tree("oid", "../../../../evil"));
  expect_refused(in_tree("oid", std::string(40, 'Z')));
  expect_refused(in_tree("lfs", {{"oid", "../evil"}, {"size", 3}}));
  expect_refused(in_tree("size", -1));
  expect_refused([](const HubRequest& request, HubReply& reply) {
    if (request.path.find("/revision/") != std::string::npos) reply.body = R"({"sha": "../../evil"})";
  });
  expect_refused([](const HubRequest& request, HubReply& reply) {
    if (request.path.find("/tree/") != std::string::npos) reply.fields["Link"] = "<http://localhost:1/x>; rel=\"next\"";
  });
}

TEST_F(Pull, FieldsOfTheHubMustFitTheTree) {
  const auto with = [&](const std::string& name, const std::string& value) {
    fs::remove_all(hub_.cache());
    hub_.change = [=](const HubRequest& request, HubReply& reply) {
      if (!request.at_store && request.path.ends_with(kBig)) reply.fields[name] = value;
    };
    return refused<BadInput>();
  };
  EXPECT_THAT(with("X-Linked-ETag", "\"../../evil\""), HasSubstr("hexadecimal"));
  EXPECT_THAT(with("X-Linked-ETag", '"' + std::string(64, 'a') + '"'), HasSubstr("expected the etag"));
  EXPECT_THAT(with("X-Repo-Commit", "../evil"), HasSubstr("hexadecimal"));
  EXPECT_THAT(with("X-Repo-Commit", std::string(40, '1')), HasSubstr("expected the file of commit"));
  EXPECT_THAT(with("X-Linked-Size", "12"), HasSubstr("X-Linked-Size"));
}

TEST_F(Pull, RedirectsAreCounted) {
  hub_.change = [](const HubRequest& request, HubReply& reply) {
    if (request.path.find("/revision/") != std::string::npos) reply = {307, {{"Location", request.path}}};
  };
  EXPECT_THAT(refused<BadInput>(), HasSubstr("at most 10 redirects"));
  hub_.change = [](const HubRequest&, HubReply& reply) { reply = {302, {{"Location", "file:///etc/passwd"}}}; };
  EXPECT_THAT(refused<BadInput>(), HasSubstr("https or http"));
}

TEST_F(Pull, LinksThatLeaveTheCacheAreRefused) {
  const std::string outside = hub_.folder() + "/outside";
  fs::create_directories(outside);
  const auto expect_refused = [&] {
    EXPECT_THAT(refused<BadInput>(), HasSubstr("leaves the cache"));
    EXPECT_TRUE(fs::is_empty(outside));
  };
  fs::create_directories(hub_.cache());
  fs::create_directory_symlink(outside, hub_.repository());
  expect_refused();
  fs::remove(hub_.repository());
  fs::create_directories(hub_.repository());
  for (const char* const name : {"blobs", "snapshots", "trees", "refs"}) {
    SCOPED_TRACE(name);
    fs::create_directory_symlink(outside, hub_.repository() + "/" + name);
    expect_refused();
    fs::remove(hub_.repository() + "/" + name);
  }
  write_file(hub_.folder() + "/file", noise(5 * kMiB + 17));
  fs::create_directories(hub_.repository() + "/blobs");
  fs::create_symlink(hub_.folder() + "/file", blob());
  EXPECT_THAT(refused<BadInput>(), HasSubstr("leaves the cache"));
  fs::remove(blob());
  fs::create_symlink(hub_.folder() + "/file", part());
  EXPECT_NE(refused<BadInput>(), "");
  EXPECT_EQ(read_file(hub_.folder() + "/file"), noise(5 * kMiB + 17));
}

TEST_F(Pull, BlobsMayBeLinksIntoTheSharedStore) {
  const std::string store = hub_.cache() + "/blobs/ab";
  fs::create_directories(store);
  fs::create_directories(hub_.repository() + "/blobs");
  write_file(store + "/content", noise(5 * kMiB + 17));
  fs::create_symlink("../../blobs/ab/content", blob());
  const PullResult result = pull_it();
  EXPECT_EQ(result.fetched_bytes, 2);
  expect_right();
}

TEST_F(Pull, ACopyInTheCacheIsEnoughWithoutTheHub) {
  pull_it();
  std::string told;
  HubAccess access;
  access.report = [&](const HubProgress& progress) { told = progress.text; };
  hub_.set("HF_ENDPOINT", "http://127.0.0.1:1");
  EXPECT_EQ(pull_it(access).path, snapshot());
  EXPECT_THAT(told, HasSubstr("the copy in the cache is used"));
}

TEST_F(Pull, ModelsAreListedAndDeleted) {
  pull_it();
  const std::vector<StoredModel> models = stored_models(hub_.cache());
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models[0].name, "o/n");
  EXPECT_EQ(models[0].bytes, static_cast<std::int64_t>(5 * kMiB + 19));
  EXPECT_EQ(models[0].part_bytes, 0);
  ASSERT_EQ(models[0].revisions.size(), 1u);
  EXPECT_THAT(models[0].revisions[0].refs, testing::ElementsAre("main"));
  EXPECT_THAT(models[0].revisions[0].files, testing::ElementsAre("config.json", kBig));
  // A second revision, which shares a file.
  const std::string other(40, '9'), own(40, 'a');
  fs::create_directories(hub_.repository() + "/snapshots/" + other);
  write_file(hub_.repository() + "/refs/old", other);
  write_file(hub_.repository() + "/blobs/" + own, "12345");
  fs::create_symlink("../../blobs/" + hub_.etag(kBig), hub_.repository() + "/snapshots/" + other + "/a");
  fs::create_symlink("../../blobs/" + own, hub_.repository() + "/snapshots/" + other + "/b");
  fs::create_symlink("../../blobs/..", hub_.repository() + "/snapshots/" + other + "/c");  // no blob
  const StoredDeletion old = plan_deletion(hub_.cache(), "hf:o/n@old");
  EXPECT_EQ(old.bytes, 5 + 40);
  delete_stored(old);
  EXPECT_FALSE(fs::exists(hub_.repository() + "/blobs/" + own));
  EXPECT_FALSE(fs::exists(hub_.repository() + "/refs/old"));
  expect_right();
  EXPECT_THAT(message_of<BadInput>([&] { plan_deletion(hub_.cache(), "o/m"); }), HasSubstr("did you mean o/n"));
  EXPECT_NE(message_of<BadInput>([&] { plan_deletion(hub_.cache(), "o/n@absent"); }), "");
  delete_stored(plan_deletion(hub_.cache(), "o/n"));
  EXPECT_TRUE(stored_models(hub_.cache()).empty());
  EXPECT_TRUE(stored_models(hub_.folder() + "/absent").empty());
}

TEST(PartFile, TrustsOnlyWhatItsRecordNames) {
  const TempFolder folder;
  const std::string path = folder / "part", text = noise(1000);
  const auto bytes = std::as_bytes(std::span(text));
  {
    PartFile part(path, 1000);
    part.write(100, bytes.subspan(100, 50));
    part.sync();
    part.write(500, bytes.subspan(500, 100));
    part.sync();
    part.write(600, bytes.subspan(600, 100));  // never synced
  }
  EXPECT_EQ(PartFile(path, 1000).present().total(), 150);
  EXPECT_EQ(PartFile(path, 1000).present().missing(1000, 1000).size(), 3u);
  // A record that was not written as a whole: the one before it counts.
  const std::string record = read_file(path + ".ranges");
  for (const std::size_t slot : {0, 1}) {
    std::string broken = record;
    broken[slot * record.size() / 2 + 20] ^= 1;
    write_file(path + ".ranges", broken);
    const std::int64_t total = PartFile(path, 1000).present().total();
    EXPECT_TRUE(total == 50 || total == 150) << total;
  }
  // The record of a content that is gone, and one that is none.
  write_file(path + ".ranges", record);
  write_file(path, "short");
  EXPECT_EQ(PartFile(path, 1000).present().total(), 0);
  write_file(path + ".ranges", std::string(record.size(), 'x'));
  EXPECT_EQ(PartFile(path, 1000).present().total(), 0);
  PartFile part(path, 1000);
  part.write(0, bytes);
  part.commit(folder / "whole");
  EXPECT_EQ(read_file(folder / "whole"), text);
  EXPECT_EQ(folder.entries(), 1);
}

}  // namespace
}  // namespace vitrine::test
