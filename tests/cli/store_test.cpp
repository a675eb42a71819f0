// --cache of generate and chat, --prefix-store of serve: later runs begin with what earlier ones have read, and print
// the same.
#include <sys/stat.h>

#include "cli/http_client.h"
#include "support/state_models.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

constexpr int kPrompt = 200, kWhole = 192;  // ids, and those in blocks

class StoreCommands : public testing::Test {
 protected:
  static std::string model() { return source_dir() + "/models/default"; }

  Arguments generate(const Arguments& more) const {
    Arguments all = {"generate", model(),      "--ids", many_ids(kPrompt), "--greedy", "--max-tokens",
                     "6",        "--logprobs", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static Json without_timings(Json json) {
    json.erase("timings");
    json.erase("seed");
    return json;
  }
  static std::int64_t cached(const Json& json) { return json["timings"]["cached_tokens"]; }

  std::vector<std::string> blocks() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(store_)) {
      if (entry.path().extension() == ".block") files.push_back(entry.path());
    }
    return files;
  }

  /// A server with the store, and what it answers to a request of a key.
  Arguments serve(const Arguments& more = {}) const {
    Arguments all = {model(), "--prefix-store", store_, "--access-log", folder_ / "log"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static Json ask(const TestServer& server, const std::string& key = "") {
    Json ids = Json::array();
    for (int i = 0; i < kPrompt; ++i) ids.push_back(3 + i % 50);
    const HttpResponse response =
        server.post("/v1/completions", {{"prompt", ids}, {"max_tokens", 6}, {"temperature", 0}, {"logprobs", 1}},
                    key.empty() ? "" : "Authorization: Bearer " + key + "\r\n");
    EXPECT_EQ(response.status, 200) << response.body;
    return response.json();
  }
  static std::int64_t cached_of(const Json& answer) {
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"];
  }
  static std::int64_t metric(const TestServer& server, const std::string& name) {
    std::istringstream lines(server.get("/metrics").body);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("vitrine_" + name)) return std::stoll(line.substr(line.rfind(' ')));
    }
    return -1;
  }

  const TempFolder folder_;
  const std::string store_ = folder_ / "store";
};

TEST_F(StoreCommands, GenerateBeginsWithWhatAnEarlierRunHasRead) {
  const Json plain = json_of(generate({}));
  EXPECT_EQ(cached(plain), 0);
  const Json first = json_of(generate({"--cache", store_})), second = json_of(generate({"--cache", store_}));
  EXPECT_EQ(without_timings(first), without_timings(plain));
  EXPECT_EQ(without_timings(second), without_timings(plain));
  EXPECT_EQ(cached(first), 0);
  EXPECT_EQ(cached(second), kWhole);
  for (const Arguments& other : {Arguments{"--kv", "int8"}, Arguments{"--compute", "f32"}}) {
    Arguments with = other;
    with.insert(with.end(), {"--cache", store_});
    EXPECT_EQ(cached(json_of(generate(with))), 0) << other[0];
    EXPECT_EQ(without_timings(json_of(generate(with))), without_timings(json_of(generate(other))));
  }
  const Json threads = json_of(generate({"--cache", store_, "--threads", "1", "--speculate", "none", "--chunk", "7"}));
  EXPECT_EQ(cached(threads), kWhole);
  EXPECT_EQ(threads["ids"], plain["ids"]);
}

TEST_F(StoreCommands, WrongFilesAreComputedAgain) {
  const Json plain = json_of(generate({"--cache", store_}));
  for (const std::string& file : blocks()) {
    std::string bytes = read_file(file);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    write_file(file, bytes);
  }
  const Json again = json_of(generate({"--cache", store_}));
  EXPECT_EQ(cached(again), 0);
  EXPECT_EQ(without_timings(again), without_timings(plain));
  EXPECT_EQ(cached(json_of(generate({"--cache", store_}))), kWhole);
}

TEST_F(StoreCommands, StatesAreStored) {
  const std::string model = folder_ / "m";
  state_model("qwen3_5_text", model);
  Arguments all = {"generate", model, "--ids", many_ids(300), "--greedy", "--max-tokens", "6"};
  const Json plain = json_of(all);
  all.insert(all.end(), {"--cache", store_});
  EXPECT_EQ(json_of(all)["ids"], plain["ids"]);
  const Json second = json_of(all);
  EXPECT_EQ(second["ids"], plain["ids"]);
  EXPECT_EQ(cached(second), 299) << "the states before the last token";
  all[3] = many_ids(300) + ",5,6,7";
  EXPECT_EQ(cached(json_of(all)), 256) << "those before the prompts differ";
}

TEST_F(StoreCommands, ChatBeginsWithWhatAnEarlierRunHasRead) {
  const Arguments chat = {"chat",     model(),  "--system",     std::string(350, 'a') + " tale",
                          "--greedy", "--json", "--max-tokens", "5",
                          "--cache",  store_,   "--template",   folder_ / "t"};
  write_file(folder_ / "t", "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}");
  const Json first = Json::parse(output_of(chat, {.input = "hello\n"}));
  const Json second = Json::parse(output_of(chat, {.input = "hello\n"}));
  EXPECT_EQ(first["reused_tokens"], 0);
  EXPECT_GE(second["reused_tokens"], 64);
  EXPECT_EQ(second["ids"], first["ids"]);
}

TEST_F(StoreCommands, AServerBeginsWithWhatAnEarlierOneHasRead) {
  Json expected;
  {
    TestServer server(serve());
    expected = ask(server);
    EXPECT_EQ(cached_of(expected), 0);
    EXPECT_EQ(metric(server, "prefix_store_hit_tokens_total"), 0);
    EXPECT_EQ(server.stop().status, 0);
  }
  TestServer server(serve()), other(serve());
  for (const TestServer* const each : {&server, &other}) {
    const Json answer = ask(*each);
    EXPECT_EQ(answer["choices"], expected["choices"]);
    EXPECT_EQ(cached_of(answer), kWhole);
  }
  EXPECT_EQ(cached_of(ask(server)), kPrompt - 1) << "from memory";
  EXPECT_EQ(metric(server, "prefix_store_hit_tokens_total"), kWhole);
  EXPECT_EQ(metric(server, "prefix_store_errors_total"), 0);
  EXPECT_GT(metric(server, "prefix_store_bytes"), 3 * 4096);
  EXPECT_EQ(server.stop().status, 0);
  EXPECT_EQ(other.stop().status, 0);
}

TEST_F(StoreCommands, KeysDoNotSharePrompts) {
  write_file(folder_ / "keys", "one\ntwo\n");
  {
    TestServer server(serve({"--api-key-file", folder_ / "keys"}));
    ask(server, "one");
    EXPECT_EQ(server.stop().status, 0);
  }
  write_file(folder_ / "keys", "two\nthree\none\n");
  TestServer server(serve({"--api-key-file", folder_ / "keys"}));
  EXPECT_EQ(cached_of(ask(server, "two")), 0) << "the first key of this server";
  EXPECT_EQ(cached_of(ask(server, "one")), kWhole) << "another number, the same key";
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(StoreCommands, AServerGoesOnWithoutItsFolder) {
  Json expected;
  {
    TestServer server(serve());
    expected = ask(server);
    EXPECT_EQ(server.stop().status, 0);
  }
  const std::vector<std::string> files = blocks();
  ASSERT_GE(files.size(), 3U);
  TestServer server(serve({"--no-prefix-cache"}));
  write_file(files[0], "nothing");
  EXPECT_EQ(ask(server)["choices"], expected["choices"]);
  EXPECT_LE(metric(server, "prefix_store_errors_total"), 1);
  std::filesystem::remove_all(store_);
  for (int i = 0; i < 3; ++i) {
    const Json answer = ask(server);
    EXPECT_EQ(answer["choices"], expected["choices"]);
    EXPECT_EQ(cached_of(answer), 0);
  }
  const Outcome outcome = server.stop();
  EXPECT_EQ(outcome.status, 0);
  const std::size_t note = outcome.err.find("prompts are not stored");
  ASSERT_NE(note, outcome.err.npos);
  EXPECT_EQ(outcome.err.find("prompts are not stored", note + 1), outcome.err.npos) << "one note";
}

TEST_F(StoreCommands, AFullDiskCostsOneNote) {
  const Outcome outcome = run_program(generate({"--cache", store_, "--json"}), {.largest_file = 4096});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("prompts are not stored"));
  EXPECT_EQ(without_timings(Json::parse(outcome.out)), without_timings(json_of(generate({}))));
}

TEST_F(StoreCommands, ErrorsNameTheFolderAndTheOption) {
  ASSERT_EQ(::mkdir(store_.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(store_.c_str(), 0777), 0);
  expect_error(generate({"--cache", store_}), {store_, "that others cannot write", "0777"});
  write_file(folder_ / "file", "x");
  expect_error(generate({"--cache", folder_ / "file"}), {"cannot open the folder"});
  expect_error(generate({"--cache", folder_ / "a/b"}), {"cannot create the folder"});
  expect_error(generate({"--cache", folder_ / "new", "--cache-size", "much"}), {"--cache-size", "expected a size"});
  expect_error(generate({"--cache", folder_ / "new", "--beam", "2"}), {"--cache", "--beam 1"});
  expect_error({"serve", golden("pairs/t5"), "--port", "0", "--prefix-store", folder_ / "new"},
               {"prefix store", "encoder–decoder"});
}

}  // namespace
}  // namespace vitrine::test
