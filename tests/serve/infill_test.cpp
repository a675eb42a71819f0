// Requests that fill in the middle of a text: the ids that the model reads, /infill's fields and reply.
#include "generate/fim_prompt.h"
#include "serve/routes.h"
#include "serve/served.h"
#include "tokenizer/read/tokenizer_json.h"

namespace vitrine::test {
namespace {

using Ids = std::vector<std::int32_t>;

Ids joined(const std::vector<Ids>& parts) {
  Ids all;
  for (const Ids& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

class FillRequests : public RequestTest {
 protected:
  FillRequests() { use({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>"}); }

  /// The default tokenizer with more tokens, whose ids are those after its own.
  void use(const std::vector<std::string>& more) {
    const std::string path = source_dir() + "/models/default/tokenizer.json";
    Json document = Json::parse(MappedFile::open(path)->text());
    first_ = static_cast<std::int32_t>(tokenizer_->vocab_size());
    for (std::size_t i = 0; i < more.size(); ++i) {
      document["added_tokens"].push_back({{"id", id(i)},
                                          {"content", more[i]},
                                          {"single_word", false},
                                          {"lstrip", false},
                                          {"rstrip", false},
                                          {"normalized", false},
                                          {"special", false}});
    }
    own_ = parse_tokenizer_json(document.dump(), path);
    model_.tokenizer = model_.defaults.tokenizer = own_.get();
    model_.vocab_size = own_->vocab_size();
  }
  std::int32_t id(std::size_t i) const { return first_ + static_cast<std::int32_t>(i); }
  Ids part(const std::string& text) const { return ids_of(text, SpecialTokens::none); }
  /// What the tokenizer adds before a text.
  Ids begin() const { return own_->adds_bos() ? Ids{*own_->bos()} : Ids(); }
  CompletionRequest infill(const Json& body) const { return parse_infill(model_, body.dump(), 1); }
  Ids prompt(const Json& body) const { return infill(body).prompts[0].ids; }
  Ids around(const std::string& before, const std::string& after) const {
    return joined({begin(), {id(0)}, part(before), {id(1)}, part(after), {id(2)}});
  }

  std::int32_t first_ = 0;
  std::unique_ptr<const Tokenizer> own_;
};

TEST_F(FillRequests, ACompletionWithASuffix) {
  const CompletionRequest request = completion(R"("suffix": " the end.")");
  EXPECT_EQ(request.prompts[0].ids, around("Once upon", " the end."));
  EXPECT_EQ(request.sequence(0, model_.defaults).stop_ids, (Ids{0, id(0), id(1), id(2), id(3)}));
  const Ids plain = ids_of("Once upon");
  for (const char* none : {R"("suffix": "")", R"("suffix": null)"}) {
    EXPECT_EQ(completion(none).prompts[0].ids, plain);
    EXPECT_EQ(completion(none).sequence(0, model_.defaults).stop_ids, Ids{0});
  }
  EXPECT_EQ(completion(R"("suffix": "b")", R"("")").prompts[0].ids, around("", "b"));
  const auto batch = completion(R"("suffix": "b")", R"(["a", [5, 6]])").prompts;
  EXPECT_EQ(batch[0].ids, around("a", "b"));
  EXPECT_EQ(batch[1].ids, joined({begin(), {id(0), 5, 6, id(1)}, part("b"), {id(2)}}));
  EXPECT_EQ(completion(R"("suffix": "b", "ignore_eos": true)").sequence(0, model_.defaults).stop_ids, Ids{});
  expect_completion_error(R"("suffix": "b", "echo": true)", "suffix", "echo");
  expect_completion_error(R"("suffix": "b", "truncate_prompt_tokens": 4)", "suffix", "truncate_prompt_tokens");
  expect_completion_error(R"("suffix": 3)", "suffix");
  expect_chat_error(R"("suffix": "b")", "suffix", "/v1/completions");
}

/// The tokens are text where they are written in a text, although the vocabulary finds them always.
TEST_F(FillRequests, WrittenTokensAreText) {
  const std::string written = "a<|fim_suffix|>b";
  EXPECT_EQ(prompt({{"input_prefix", written}, {"input_suffix", written}}), around(written, written));
  EXPECT_EQ(own_->encode(written, SpecialTokens::none), joined({part("a"), {id(1)}, part("b")}));
}

TEST_F(FillRequests, LlamaServersFields) {
  EXPECT_EQ(prompt({{"input_prefix", "Once"}, {"input_suffix", " end"}}), around("Once", " end"));
  EXPECT_EQ(prompt({{"input_prefix", ""}, {"input_suffix", ""}}), around("", ""));
  EXPECT_EQ(prompt({{"input_prefix", "a"}, {"input_suffix", "b"}, {"prompt", " cat"}}),
            joined({begin(), {id(0)}, part("a"), part(" cat"), {id(1)}, part("b"), {id(2)}}));
  const Json files = Json::parse(R"([{"filename": "x.h", "text": "a cat", "time": 5}, {"text": "b"}])");
  model_.max_seq_len = 4096;  // more than a batch: there is space for files
  EXPECT_EQ(prompt({{"input_prefix", "a"}, {"input_suffix", "b"}, {"input_extra", files}, {"n_predict", 4}}),
            joined({part("\n\n--- snippet ---\n\n"), part("a cat"), part("\n\n--- snippet ---\n\n"), part("b"),
                    around("a", "b")}))
      << "files come before BOS";
  const GenerateRequest sequence =
      infill({{"input_prefix", "a"}, {"input_suffix", "b"}, {"n_predict", 7}, {"temperature", 0}, {"top_k", 3}})
          .sequence(0, model_.defaults);
  EXPECT_EQ(sequence.max_tokens, 7);
  EXPECT_EQ(sequence.sampling.top_k, 3);
  EXPECT_EQ(sequence.stop_ids, (Ids{0, id(0), id(1), id(2), id(3)}));
  EXPECT_TRUE(infill({{"input_prefix", "a"}, {"n_probs", 2}}).sequence(0, model_.defaults).wants_logprobs);
  EXPECT_EQ(infill({{"input_prefix", "a"}}).sequence(0, model_.defaults).max_tokens, model_.max_seq_len);
}

TEST_F(FillRequests, FilesHaveTheirTokens) {
  use({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"});
  const Json files = Json::parse(R"([{"filename": "x.h", "text": "a cat"}, {"text": "b"}])");
  model_.max_seq_len = 4096;  // more than a batch: there is space for files
  EXPECT_EQ(prompt({{"input_prefix", "a"}, {"input_suffix", "b"}, {"input_extra", files}, {"n_predict", 4}}),
            joined({{id(3)},
                    part("myproject\n"),
                    {id(4)},
                    part("x.h\n"),
                    part("a cat"),
                    {id(4)},
                    part("tmp\n"),
                    part("b"),
                    {id(4)},
                    part("filename\n"),
                    around("a", "b")}));
}

/// The end of the prefix, the beginning of the suffix and the end of the files stay.
TEST_F(FillRequests, LongTextsAreCut) {
  std::string many;
  for (int i = 0; i < 3000; ++i) many += " cat";
  const Ids tokens = part(many);
  for (const std::int64_t length : {64, 512, 2048, 8192}) {
    model_.max_seq_len = length;
    const int n_new = 16;
    const Ids ids = prompt({{"input_prefix", many}, {"input_suffix", many}, {"n_predict", n_new}});
    EXPECT_LE(std::ssize(ids) + n_new, length);
    const std::int64_t batch = std::min<std::int64_t>(2048, length - n_new - 2), quarter = batch / 4;
    const Ids expected = joined({begin(),
                                 {id(0)},
                                 {tokens.end() - 3 * quarter, tokens.end()},
                                 {id(1)},
                                 {tokens.begin(), tokens.begin() + quarter - 2},
                                 {id(2)}});
    EXPECT_EQ(ids, expected);
    const Json files = Json::array({{{"text", many}}});
    const Ids with =
        prompt({{"input_prefix", "a"}, {"input_suffix", "b"}, {"n_predict", n_new}, {"input_extra", files}});
    const std::int64_t n_files =
        std::min<std::int64_t>(std::ssize(part("\n\n--- snippet ---\n\n")) + std::ssize(tokens),
                               std::max<std::int64_t>(0, length - batch - 2 * n_new));
    EXPECT_EQ(std::ssize(with), n_files + std::ssize(around("a", "b")));
  }
}

/// What llama.vim and llama.vscode send.
TEST_F(FillRequests, TheFieldsOfEditors) {
  const GenerateRequest sequence = infill(Json::parse(R"({
      "id_slot": 0, "input_prefix": "int a;\n", "input_suffix": "\nint c;", "prompt": "  int",
      "input_extra": [{"text": "a cat", "time": [1, 2], "filename": "x.h"}], "stop": [], "n_predict": 128, "n_indent": 2,
      "top_k": 40, "top_p": 0.9, "samplers": ["top_k", "top_p", "infill"], "stream": false, "cache_prompt": true,
      "t_max_prompt_ms": 500, "t_max_predict_ms": 1000, "response_fields": ["content", "timings/prompt_n", "truncated"]})"))
                                       .sequence(0, model_.defaults);
  EXPECT_EQ(sequence.limits.n_indent, 2);
  EXPECT_EQ(sequence.limits.t_max_predict_ms, 1000);
  EXPECT_NE(sequence.sampling.infill, nullptr);
  EXPECT_EQ(sequence.sampling.top_p, 0.9);
  EXPECT_EQ(sequence.sampling.temperature, 1);
}

TEST_F(FillRequests, RefusalsAreNamed) {
  const auto refused = [&](const Json& body, const std::string& field, const std::string& part) {
    expect_refusal([&] { infill(body); }, 400, field, {part});
  };
  const Json both = {{"input_prefix", "a"}, {"input_suffix", "b"}};
  const auto with = [&](const char* name, const Json& value) {
    Json body = both;
    body[name] = value;
    return body;
  };
  refused(Json::object(), "input_prefix", "expected a text");
  refused(with("input_extra", 3), "input_extra", "list");
  refused(with("input_extra", Json::parse(R"([{"filename": "a"}])")), "input_extra[0].text", "expected a string");
  refused(with("input_extra", Json::parse(R"([{"text": "a", "name": "a"}])")), "input_extra[0].name", "unknown field");
  refused(with("suffix", "b"), "suffix", "input_suffix");
  refused(with("n", 2), "n", "one text");
  refused(with("prompt_logprobs", 2), "prompt_logprobs", "not supported");
  refused(with("input_sufix", "b"), "input_sufix", "did you mean input_suffix?");
  use({"<|fim_prefix|>", "<|fim_suffix|>"});
  refused(both, "input_suffix", kNoFimTokens);
  expect_completion_error(R"("suffix": "b")", "suffix", kNoFimTokens);
  model_.tokenizer = model_.defaults.tokenizer = nullptr;
  refused(both, "input_suffix", kNoFimTokens);
}

TEST_F(FillRequests, TheRouteExists) {
  const Route* const route = find_route("/infill");
  ASSERT_NE(route, nullptr);
  EXPECT_TRUE(route->needs_scheduler());
  EXPECT_EQ(route->access, Access::key);
}

}  // namespace
}  // namespace vitrine::test
