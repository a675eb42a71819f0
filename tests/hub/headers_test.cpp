// What is read of a model before it is fetched.
#include "base/error.h"
#include "base/temp_folder.h"
#include "faulty_hub.h"
#include "hub/pull.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kBig = "model.safetensors";
constexpr std::size_t kMiB = 1 << 20;

class Headers : public testing::Test {
 protected:
  Headers() { hub_.add("config.json", "{}"); }
  std::string snapshot() const { return hub_.repository() + "/snapshots/" + FaultyHub::kCommit; }

  TempFolder folder_;
  FaultyHub hub_{folder_.path()};
};

/// A safetensors file of one tensor of `size` bytes.
std::string safetensors(std::size_t size) {
  std::string header = R"({"w":{"dtype":"U8","shape":[)" + std::to_string(size) + R"(],"data_offsets":[0,)" +
                       std::to_string(size) + "]}}" + std::string(100'000, ' ');
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + std::string(size, 'w');
}

TEST_F(Headers, HeadersAreFilesWithHoles) {
  const std::string all = safetensors(20 * kMiB);
  hub_.add(kBig, all);
  hub_.add("tokenizer.json", std::string(kMiB, ' '));
  const ModelHeaders headers = fetch_headers(parse_hub_name("hf:o/n"), {});
  EXPECT_EQ(headers.remote.path, snapshot());
  EXPECT_EQ(headers.remote.bytes, std::ssize(all) + 2 + static_cast<std::int64_t>(kMiB));
  EXPECT_LT(headers.remote.fetched_bytes, 110'000);
  const std::string copy = read_file(headers.path + "/" + kBig);
  ASSERT_EQ(copy.size(), all.size());
  EXPECT_EQ(copy.substr(0, 100'000), all.substr(0, 100'000));
  EXPECT_EQ(copy.find('w', 200'000), copy.npos);
  EXPECT_FALSE(fs::exists(headers.path + "/tokenizer.json"));
  EXPECT_FALSE(fs::exists(hub_.cache()));
}

TEST_F(Headers, ACheckSeesTheHeadersBeforeMuchIsFetched) {
  hub_.add(kBig, safetensors(20 * kMiB));
  HubAccess access;
  std::string seen;
  access.check = [&](const std::string& path) {
    seen = path;
    EXPECT_EQ(fs::file_size(path + "/" + kBig), safetensors(20 * kMiB).size());
    throw Unsupported("config.json", "no such mechanism");
  };
  EXPECT_THAT(message_of<Unsupported>([&] { pull(parse_hub_name("hf:o/n"), HubWanted::model, access); }),
              HasSubstr("no such mechanism"));
  EXPECT_FALSE(fs::exists(seen));
  EXPECT_FALSE(fs::exists(hub_.cache()));
  access.check = [&](const std::string&) { ++seen.back(); };
  EXPECT_EQ(pull(parse_hub_name("hf:o/n"), HubWanted::model, access).fetched_bytes,
            std::ssize(safetensors(20 * kMiB)) + 2);
  EXPECT_EQ(read_file(snapshot() + "/" + kBig), safetensors(20 * kMiB));
}

TEST_F(Headers, HeadersComeFromServersWithoutRangesAndFromTheCache) {
  hub_.add(kBig, safetensors(5 * kMiB));
  hub_.change = [](const HubRequest& request, HubReply& reply) {
    if (!request.at_store || request.method != "GET") return;
    reply.status = 200;
    reply.fields.erase("Content-Range");
    reply.body = safetensors(5 * kMiB);
  };
  EXPECT_LT(fetch_headers(parse_hub_name("hf:o/n"), {}).remote.fetched_bytes, 110'000);
  hub_.change = {};
  pull(parse_hub_name("hf:o/n"), HubWanted::model, {});
  HubAccess offline;
  offline.offline = true;
  const ModelHeaders headers = fetch_headers(parse_hub_name("hf:o/n"), offline);
  EXPECT_EQ(headers.remote.fetched_bytes, 0);
  EXPECT_EQ(read_file(headers.path + "/" + kBig), safetensors(5 * kMiB));
}

TEST_F(Headers, AnExpiredLinkIsResolvedAgain) {
  hub_.add(kBig, safetensors(kMiB));
  hub_.change = [n = std::make_shared<std::atomic<int>>(0)](const HubRequest& request, HubReply& reply) {
    if (request.at_store && (*n)++ == 0) reply = {410};
  };
  EXPECT_GT(fetch_headers(parse_hub_name("hf:o/n"), {}).remote.fetched_bytes, 100'000);
}

TEST_F(Headers, ErrorsWithEtagsAreTriedAgain) {
  hub_.add(kBig, safetensors(kMiB));
  hub_.change = [n = std::make_shared<std::atomic<int>>(0)](const HubRequest& request, HubReply& reply) {
    if (!request.at_store && request.path.ends_with(kBig) && (*n)++ == 0) reply = {503, {{"ETag", "W/\"1c-abc\""}}};
  };
  EXPECT_GT(fetch_headers(parse_hub_name("hf:o/n"), {}).remote.fetched_bytes, 100'000);
}

}  // namespace
}  // namespace vitrine::test
