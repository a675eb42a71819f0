// Bodies that are wrong in every way, at all routes that read texts: each is answered, with an error of its interface.
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "cli/head_models.h"
#include "cli/http_client.h"

namespace vitrine::test {
namespace {

struct Case {
  const char* path;
  const char* member;  ///< Of an error body.
  const char* body;
};
constexpr Case kCases[] = {
    {"/v1/rerank", "detail",
     R"({"query": "q", "documents": ["a", {"text": "b"}], "top_n": 1, "return_documents": true})"},
    {"/v2/rerank", "message", R"({"query": "q", "documents": ["a", "b"], "top_n": 1, "max_tokens_per_doc": 4096})"},
    {"/rerank", "error",
     R"({"query": "q", "texts": ["a", "b"], "raw_scores": true, "return_text": true, "truncate": true,
         "truncation_direction": "Left"})"},
    {"/v1/score", "error", R"({"text_1": ["q"], "text_2": ["a", "b"], "truncate_prompt_tokens": 9})"},
    {"/score", "error", R"({"queries": ["q", "r"], "documents": ["a", "b"], "use_activation": false})"},
    {"/classify", "error", R"({"input": ["a", [5, 6]], "use_activation": true, "truncation_side": "left"})"},
    {"/v1/classify", "error", R"({"input": "a b", "vitrine": {"sites": ["head.hook_out"], "set": []}})"},
    {"/predict", "error", R"({"inputs": [["a", "b"], ["c"]], "raw_scores": true, "truncate": false})"},
    {"/predict", "error", R"({"inputs": "a", "parameters": {"top_k": 1, "function_to_apply": "none"}})"},
    {"/embed", "error",
     R"({"inputs": ["a", "b c"], "normalize": true, "truncate": true, "truncation_direction": "Left", "dimensions": 4,
         "prompt_name": "query", "encoding_format": "base64"})"},
    {"/embed_all", "error", R"({"inputs": [5, 6, 7], "truncate": true, "prompt_name": "query"})"},
    {"/embed_sparse", "error", R"({"inputs": "a", "truncate": true})"},
    {"/similarity", "error",
     R"({"inputs": {"source_sentence": "a", "sentences": ["b", "c"]}, "parameters": {"truncate": true}})"},
    {"/", "error", R"({"inputs": "a b", "parameters": {"top_k": 2}})"},
    {"/", "error", R"({"inputs": {"source_sentence": "a", "sentences": ["b", "c"]}})"},
    {"/pooling", "error",
     R"({"input": ["a", "b"], "task": "token_embed", "encoding_format": "float", "dimensions": 3})"},
    {"/pooling", "error", R"({"input": "a", "task": "classify", "use_activation": true})"},
    {"/v1/embeddings", "error",
     R"({"input": ["a", "b"], "encoding_format": "base64", "dimensions": 4, "input_type": "query",
         "vitrine": {"sites": ["blocks.0.hook_resid_post"]}})"},
    {"/v1/embed", "message", R"({"texts": ["a"], "input_type": "search_query", "truncate": "START"})"},
    {"/v2/embed", "message",
     R"({"inputs": [{"content": [{"type": "text", "text": "a"}]}], "embedding_types": ["float"], "output_dimension": 4})"},
    {"/tokenize", "error", R"({"inputs": ["a b"], "add_special_tokens": true, "prompt_name": "query"})"},
    {"/decode", "error", R"({"ids": [[5, 6], [7]], "skip_special_tokens": false})"},
};

class Mutations {
 public:
  explicit Mutations(std::uint32_t seed) : random_(seed) {}

  std::string of(const std::string& text) {
    Json json = Json::parse(text);
    const std::size_t n = below(4);
    for (std::size_t i = 0; i < n; ++i) change(json);
    std::string body = json.dump();
    switch (below(8)) {
      case 0:
        return body.substr(0, below(body.size() + 1));
      case 1:
        body[below(body.size())] = static_cast<char>(below(256));
        return body;
      case 2: {  // not UTF-8, within a text if there is one
        const std::size_t quote = body.find('"', below(body.size()));
        return body.insert(quote == body.npos ? 0 : quote + 1, "\xC3\x28\xFF");
      }
      case 3: {
        const std::size_t depth = below(2) == 0 ? 60 : 5000;
        return R"({"inputs": )" + std::string(depth, '[') + std::string(depth, ']') + "}";
      }
      default:
        return body;
    }
  }
  std::size_t below(std::size_t n) { return random_() % n; }

 private:
  Json value() {
    static const char* const kValues[] = {"null",
                                          "true",
                                          "-1",
                                          "0",
                                          "1.5",
                                          "1e308",
                                          "-0.0",
                                          "\"\"",
                                          "\"x\"",
                                          "[]",
                                          "{}",
                                          "[null]",
                                          "[[[]]]",
                                          "[1, \"a\"]",
                                          "18446744073709551615",
                                          "-9223372036854775808",
                                          "4294967296",
                                          "[\"a\", 7, {}]",
                                          "{\"text\": 7}",
                                          "{\"text\": \"a\"}",
                                          "\"\\u0000\"",
                                          "\"\\ud83d\\ude42 \\u65e5\"",
                                          "[-1, 4000000000]",
                                          "[5, 6]"};
    if (below(20) == 0) return std::string(3000, 'a') + " b";
    if (below(20) == 0) return Json(std::vector<std::string>(below(2) == 0 ? 3 : 2100, "a"));
    return Json::parse(kValues[below(std::size(kValues))]);
  }
  /// Changes a value, or a member, somewhere within.
  void change(Json& json) {
    if (!json.is_structured() || json.empty() || below(4) == 0) {
      json = value();
      return;
    }
    auto at = json.begin();
    std::advance(at, below(json.size()));
    switch (below(4)) {
      case 0:
        json.erase(at);
        return;
      case 1:
        if (json.is_object()) json["unknown"] = value();
        if (json.is_array()) json.push_back(value());
        return;
      default:
        change(*at);
    }
  }

  std::mt19937 random_;
};

/// VITRINE_BODIES sets their number.
TEST(ServeMalformed, BodiesAreAnsweredWithErrorsOfTheClient) {
  const char* const wanted = std::getenv("VITRINE_BODIES");
  const std::size_t n_bodies = wanted != nullptr ? std::strtoul(wanted, nullptr, 10) : 400;
  TempFolder folder;
  const std::string vectors = folder / "vectors";
  std::filesystem::copy(goldens() + "/masked/bert", vectors);
  write_file(vectors + "/tokenizer.json", letter_words());
  write_file(vectors + "/config_sentence_transformers.json", R"({"prompts": {"query": "x y "}})");
  const std::string models[] = {vectors, head_model(folder / "classes", "bert_classes"),
                                head_model(folder / "ranks", "distilbert_classes"),
                                head_model(folder / "tags", "bert_tags"), ""};
  Mutations mutations(1);
  std::map<int, int> statuses;
  for (const std::string& model : models) {
    TestServer server(model.empty() ? Arguments{} : Arguments{model});
    for (std::size_t i = 0; i < n_bodies / std::size(models); ++i) {
      const Case& c = kCases[mutations.below(std::size(kCases))];
      const std::string body = mutations.of(c.body);
      const HttpResponse response = server.exchange(TestServer::post_text(c.path, body));
      const std::string what = c.path + std::string(" ") + body.substr(0, 500) + " -> " + response.body;
      ++statuses[response.status];
      const std::set<int> expected = {200, 400, 404, 413, 422};
      ASSERT_EQ(expected.count(response.status), 1U) << model << " " << response.status << " " << what;
      const Json json = response.json();
      ASSERT_TRUE(json.is_structured()) << what;
      ASSERT_TRUE(response.status == 200 || json.contains(c.member)) << what;
    }
    EXPECT_EQ(server.get("/health").status, 200);
    EXPECT_EQ(server.stop().status, 0) << model;
  }
  EXPECT_GT(statuses[200], 0) << "some are right";
  EXPECT_GT(statuses[400], 0);
  EXPECT_GT(statuses[422], 0);
}

}  // namespace
}  // namespace vitrine::test
