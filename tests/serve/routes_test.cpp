// The routes of the tokenizer and the template, and requests for vectors.
#include "serve/routes.h"

#include "serve/embeddings.h"
#include "serve/served.h"
#include "tokenizer/read/base64.h"

namespace vitrine::test {
namespace {

using Ids = std::vector<std::int32_t>;

class Routes : public ServedModelTest {
 protected:
  Json reply(const std::string& path, const Json& body = Json::object()) const {
    const Route& route = *find_route(path);
    const std::string text = body.dump();
    return std::get<Route::Answer>(route.handler)(model_, {text, path.substr(route.path.size()), "1", 0, {}});
  }
};

/// Errors have the form of the interface, also where it has no route.
TEST_F(Routes, DoorsHaveTheirPaths) {
  const RequestError error(kUnknownRoute, "path", "none");
  const auto json = [&](std::string_view path) { return door_of(path).error(error); };
  EXPECT_TRUE(json("/api/blobs/sha256:1")["error"].is_string());
  EXPECT_EQ(json("/api/blobs/sha256:1"), json("/api/chat"));
  EXPECT_EQ(json("/v1/messages/batches")["type"], "error");
  EXPECT_EQ(json("/v1/messages/batches"), json("/v1/messages"));
  EXPECT_EQ(json("/v1/files"), error.to_json());
  EXPECT_EQ(json("/v1/chat/completions"), error.to_json());
}

TEST_F(Routes, TextBecomesTokensAndBack) {
  const Json tokens = reply("/tokenize", {{"prompt", "a cat"}});
  EXPECT_EQ(tokens["tokens"], Json(ids_of("a cat")));
  EXPECT_EQ(tokens["count"], ids_of("a cat").size());
  EXPECT_EQ(tokens["max_model_len"], 512);
  EXPECT_EQ(reply("/tokenize", {{"prompt", "a"}, {"add_special_tokens", false}})["tokens"],
            Json(ids_of("a", SpecialTokens::written)));
  EXPECT_EQ(reply("/detokenize", {{"tokens", tokens["tokens"]}})["prompt"], "a cat");
  EXPECT_EQ(reply("/detokenize", {{"tokens", tokens["tokens"]}})["content"], "a cat") << "llama-server's name";
  const auto written = ids_of("a cat", SpecialTokens::written);
  EXPECT_EQ(reply("/tokenize", {{"content", "a cat"}})["tokens"], Json(written));
  EXPECT_EQ(reply("/tokenize", {{"content", "a cat"}, {"add_special", true}})["tokens"], Json(ids_of("a cat")));
  const std::string special = tokenizer_->piece(0);
  EXPECT_EQ(reply("/tokenize", {{"content", special}})["tokens"], Json(Ids{0}));
  EXPECT_EQ(reply("/tokenize", {{"content", special}, {"parse_special", false}})["tokens"],
            Json(ids_of(special, SpecialTokens::none)));
  EXPECT_EQ(reply("/tokenize", {{"content", "a"}, {"with_pieces", true}})["tokens"][0],
            Json({{"id", ids_of("a", SpecialTokens::none)[0]}, {"piece", "a"}}));
  EXPECT_EQ(reply("/tokenize", {{"prompt", "a cat"}, {"return_token_strs", true}})["token_strs"].size(),
            tokens["count"]);
  const Json messages = Json::parse(R"([{"role": "user", "content": "Hi"}])");
  for (const char* path : {"/tokenize", "/apply-template"}) {
    Json whole = Json::parse(R"({"model": "alias", "temperature": 0.5, "max_tokens": 5, "stream": true, "n": 2,
        "stream_options": {"include_usage": true}, "top_p": 1, "stop": ["x"], "seed": 1, "logprobs": true,
        "top_logprobs": 2, "user": "u", "cache_prompt": true, "samplers": ["top_k"], "reasoning_format": "none"})");
    whole["messages"] = messages;
    EXPECT_EQ(reply(path, whole), reply(path, {{"messages", messages}})) << "fields of a chat that change no prompt";
    expect_refusal(
        [&] {
          reply(path, {{"messages", messages}, {"tools", {{{"type", "function"}}}}});
        },
        400, "tools[0].function");
    expect_refusal([&] { reply(path, {{"messages", messages}, {"temprature", 1}}); }, 400, "temprature");
  }
  EXPECT_EQ(reply("/tokenize", {{"messages", messages}})["tokens"],
            Json(ids_of("user: Hi\nassistant:", SpecialTokens::none)));
  expect_refusal([&] { reply("/tokenize"); }, 400, "prompt");
  expect_refusal(
      [&] {
        reply("/tokenize", {{"prompt", "a"}, {"add_special_token", true}});
      },
      400, "add_special_token", {"did you mean add_special_tokens?"});
  expect_refusal([&] { reply("/detokenize", {{"tokens", {4096}}}); }, 400, "tokens");
  expect_refusal([&] { reply("/detokenize", {{"tokens", "a"}}); }, 400, "tokens");
  model_.tokenizer = nullptr;
  expect_refusal([&] { reply("/tokenize", {{"prompt", "a"}}); }, 400, "prompt", {"no tokenizer"});
}

TEST_F(Routes, TheTokenizersSpecialTokens) {
  model_.templates.special_tokens = {{"pad_token", "<pad>"}};
  const Json info = reply("/tokenizer_info");
  EXPECT_EQ(info["pad_token"], "<pad>");
  EXPECT_EQ(info["bos_token"], tokenizer_->piece(*tokenizer_->bos()));
  EXPECT_EQ(info["eos_token"], tokenizer_->piece(model_.defaults.stop_ids.front()));
  EXPECT_EQ(info["chat_template"], model_.templates.by_name["default"]);
}

TEST_F(Routes, TheTemplatesText) {
  const Json messages = Json::parse(R"([{"role": "user", "content": "Hi"}])");
  EXPECT_EQ(reply("/apply-template", {{"messages", messages}})["prompt"], "user: Hi\nassistant:");
  EXPECT_EQ(reply("/apply-template", {{"messages", messages}, {"add_generation_prompt", false}})["prompt"],
            "user: Hi\n");
}

TEST_F(Routes, RequestsForVectors) {
  model_.d_model = 3;
  const EmbeddingRequest request =
      parse_embeddings(model_, R"({"input": ["a cat", [1, 2]], "model": "alias", "dimensions": 3, "user": "u"})");
  EXPECT_EQ(request.texts.ids, (std::vector<Ids>{ids_of("a cat"), {1, 2}}));
  EXPECT_EQ(request.texts.n_tokens, std::ssize(ids_of("a cat")) + 2);
  EXPECT_FALSE(request.is_base64);
  EXPECT_FALSE(request.options.normalize);
  EXPECT_EQ(request.options.dimensions, 3);
  EXPECT_EQ(parse_embeddings(model_, R"({"input": "a", "embd_normalize": -1})").options.normalize, false);
  EXPECT_EQ(parse_embeddings(model_, R"({"input": "a", "use_activation": true})").options.normalize, true);
  EXPECT_EQ(parse_embeddings(model_, R"({"input": [1, 2, 3], "truncate_prompt_tokens": 2})").texts.ids[0], (Ids{1, 2}));
  EXPECT_EQ(parse_embeddings(model_, R"({"input": "a cat", "add_special_tokens": false, "embed_dtype": "float32",
      "endianness": "little", "priority": 1})")
                .texts.ids[0],
            ids_of("a cat", SpecialTokens::written));
  expect_refusal([&] { parse_embeddings(model_, R"({"input": "a", "embd_normalize": 1})"); }, 400, "embd_normalize");
  expect_refusal([&] { parse_embeddings(model_, R"({"input": "a", "embed_dtype": "int8"})"); }, 400, "embed_dtype");
  model_.sentences.max_tokens = 2;
  EXPECT_EQ(parse_embeddings(model_, R"({"input": "a cat sat on a mat"})").texts.ids[0].size(), 2U);
  expect_refusal([&] { parse_embeddings(model_, R"({"input": "a", "dimensions": 4})"); }, 400, "dimensions");
  expect_refusal([&] { parse_embeddings(model_, R"({"input": "a", "encoding_format": "int8"})"); }, 400,
                 "encoding_format");
  expect_refusal([&] { parse_embeddings(model_, "{}"); }, 400, "input");
}

TEST_F(Routes, VectorsReadBackEqual) {
  EmbeddingRequest request;
  request.texts.n_tokens = 5;
  const std::vector<std::vector<float>> vectors = {{0.1F, -2.5F}, {1e-20F, 3}};
  const Json reply = Json::parse(json_text(embeddings_reply(request, vectors)));
  EXPECT_EQ(reply["data"][1]["index"], 1);
  EXPECT_EQ(reply["usage"], Json::parse(R"({"prompt_tokens": 5, "total_tokens": 5})"));
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(reply["data"][i]["embedding"].get<std::vector<float>>(), vectors[i]);
  request.is_base64 = true;
  const std::string text = embeddings_reply(request, vectors)["data"][0]["embedding"];
  EXPECT_TRUE(text.ends_with("=")) << "8 bytes need padding: " << text;
  const std::string bytes = decode_base64(text.substr(0, text.find('=')))->bytes;
  ASSERT_EQ(bytes.size(), 8U);
  std::vector<float> decoded(2);
  std::memcpy(decoded.data(), bytes.data(), 8);
  EXPECT_EQ(decoded, vectors[0]);
}

}  // namespace
}  // namespace vitrine::test
