// vitrine serve: requests that read and change values get those of `vitrine trace`.
#include <cstring>

#include "cli/http_client.h"
#include "tokenizer/read/base64.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

const std::string kPrompt = "Once upon a time";

class ServeSites : public testing::Test {
 protected:
  ServeSites() : server_({"--access-log", folder_ / "log"}) {}
  void TearDown() override { EXPECT_EQ(server_.stop().status, 0); }

  Json completion(Json fields) {
    fields["prompt"] = kPrompt;
    const HttpResponse response = server_.post("/v1/completions", fields);
    EXPECT_EQ(response.status, 200) << response.body;
    return response.json();
  }
  /// What `vitrine trace` writes of a text, or of ids.
  std::string traced(Arguments input, const std::vector<std::string>& sites,
                     const std::vector<std::string>& writes) const {
    input.insert(input.begin(), "trace");
    for (const std::string& site : sites) input.insert(input.end(), {"--sites", site});
    for (const std::string& write : writes) input.insert(input.end(), {"--set", write});
    input.insert(input.end(), {"--out", folder_ / "trace.safetensors"});
    json_of(input);
    return read_file(folder_ / "trace.safetensors");
  }

  const TempFolder folder_;
  TestServer server_;
};

TEST_F(ServeSites, ATraceIsTheFileOfTrace) {
  const std::vector<std::string> sites = {"blocks.*.hook_resid_post", "*.attn.hook_pattern"},
                                 writes = {"blocks.1.hook_resid_pre[-2:,3]+=1.5"};
  HttpResponse response = server_.post("/v1/trace", {{"prompt", kPrompt}});
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_THAT(response.head, HasSubstr("Content-Type: application/octet-stream"));
  EXPECT_TRUE(response.body == traced({kPrompt}, {}, {})) << "byte for byte";
  response = server_.post("/v1/trace", {{"prompt", {3, 4, 5}}, {"sites", sites}, {"set", writes}});
  EXPECT_TRUE(response.body == traced({"--ids", "3,4,5"}, sites, writes));
  EXPECT_EQ(server_.post("/v1/trace", {{"prompt", kPrompt}, {"sites", {"nothing"}}}).status, 400);
}

TEST_F(ServeSites, SitesOfATextAreThoseOfATraceOfItsTokens) {
  const std::vector<std::string> sites = {"blocks.*.hook_resid_post", "*.attn.hook_pattern", "hook_logits"},
                                 writes = {"blocks.1.hook_resid_post[2:12,3]*=-4", "blocks.0.hook_attn_out[9]+=0.5"};
  Json fields = {{"seed", 5}, {"max_tokens", 14}, {"n", 2}, {"ignore_eos", true}, {"logprobs", 0}};
  const Json plain = completion(fields);
  fields["vitrine"] = {{"sites", sites}, {"set", writes}};
  const Json steered = completion(fields), again = completion(fields);
  EXPECT_EQ(steered["choices"], again["choices"]);
  EXPECT_NE(steered["choices"][0]["logprobs"]["token_logprobs"], plain["choices"][0]["logprobs"]["token_logprobs"]);
  EXPECT_EQ(again["usage"]["prompt_tokens_details"]["cached_tokens"], 0) << "never shared";
  fields.erase("vitrine");
  EXPECT_EQ(completion(fields)["choices"], plain["choices"]) << "the steered prompt is not in the prefix cache";
  for (const Json& choice : steered["choices"]) {
    const Json& own = choice["vitrine"];
    std::string ids;
    for (const Json& id : own["prompt_ids"]) ids += id.dump() + ",";
    for (std::size_t i = 0; i + 1 < own["ids"].size(); ++i) ids += own["ids"][i].dump() + ",";
    ids.pop_back();
    const std::string file = traced({"--ids", ids}, sites, writes);
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
    const Json header = Json::parse(file.substr(8, header_bytes));
    ASSERT_EQ(own["sites"].size(), header.size() - 1);
    for (const Json& site : own["sites"]) {
      const Json& expected = header[site["name"].get<std::string>()];
      EXPECT_EQ(site["shape"], expected["shape"]);
      const std::uint64_t begin = expected["data_offsets"][0], end = expected["data_offsets"][1];
      std::string data = site["data"];
      while (data.ends_with('=')) data.pop_back();
      EXPECT_TRUE(decode_base64(data)->bytes == file.substr(8 + header_bytes + begin, end - begin)) << site["name"];
    }
  }
}

TEST_F(ServeSites, AStreamHasTheSitesInTheLastChunkOfAChoice) {
  Json fields = {{"prompt", kPrompt}, {"seed", 2}, {"max_tokens", 6}, {"vitrine", {{"sites", {"hook_embed"}}}}};
  const Json whole = completion(fields);
  fields["stream"] = true;
  const std::vector<Json> events = server_.post("/v1/completions", fields).events();
  for (std::size_t i = 0; i + 1 < events.size(); ++i) EXPECT_FALSE(events[i]["choices"][0].contains("vitrine"));
  EXPECT_EQ(events.back()["choices"][0]["vitrine"], whole["choices"][0]["vitrine"]);
}

TEST(ServeWithoutSites, RefusesThem) {
  const TempFolder folder;
  TestServer server({"--no-inspect", "--access-log", folder / "log"});
  EXPECT_EQ(server.post("/v1/trace", {{"prompt", "a"}}).status, 403);
  EXPECT_EQ(server.post("/v1/completions", {{"prompt", "a"}, {"vitrine", {{"sites", {"hook_embed"}}}}}).status, 403);
  EXPECT_EQ(server.post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 1}}).status, 200);
  EXPECT_EQ(server.stop().status, 0);
}

}  // namespace
}  // namespace vitrine::test
