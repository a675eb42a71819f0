// The C interface gives the bytes of the program, and runs from C99.
#include "capi/vitrine_c.h"

#include <memory>

#include "cli/program.h"
#include "support/run.h"
#include "support/training.h"

namespace vitrine::test {
namespace {

using Ids = std::vector<std::int32_t>;

std::string model_folder() { return source_dir() + "/models/default"; }

/// Takes a result of the C interface.
std::string taken(char* text) {
  const std::unique_ptr<char, void (*)(void*)> owner(text, vitrine_free);
  return text == nullptr ? "" : text;
}

class OpenedInC : public testing::Test {
 protected:
  OpenedInC() {
    EXPECT_EQ(vitrine_open(model_folder().c_str(), R"({"threads": 2})", &model_), VITRINE_DONE) << vitrine_error();
  }
  ~OpenedInC() override { vitrine_close(model_); }

  Ids encode(const std::string& text) const {
    std::int32_t* ids = nullptr;
    std::size_t n = 0;
    EXPECT_EQ(vitrine_encode(model_, text.data(), text.size(), nullptr, &ids, &n), VITRINE_DONE) << vitrine_error();
    const Ids result(ids, ids + n);
    vitrine_free(ids);
    return result;
  }
  /// A JSON object without what differs from run to run.
  static Json without_times(const std::string& text) {
    Json json = parse_json(text, "result");
    json.erase("timings");
    json.erase("speculation");  // the library decodes token by token; the program's text is the same
    return json;
  }

  TempFolder folder_;
  vitrine_model* model_ = nullptr;
  const std::string text_ = "Once upon a time there was";
};

/// The values that a callback has received, as the bytes of a .safetensors file have them.
struct Received {
  std::map<std::string, std::pair<std::vector<std::int64_t>, std::string>> values;

  static int take(void* user, const char* name, const std::int64_t* shape, std::size_t rank, const float* value) {
    std::int64_t n = 1;
    for (std::size_t i = 0; i < rank; ++i) n *= shape[i];
    auto& entry = static_cast<Received*>(user)->values[name];
    entry.first.assign(shape, shape + rank);
    entry.second.assign(reinterpret_cast<const char*>(value), static_cast<std::size_t>(n) * sizeof(float));
    return 0;
  }
  static int take_site(void* user, const char* name, const std::int64_t* shape, std::size_t rank, const float* value,
                       float*) {
    return take(user, name, shape, rank, value);
  }
  void expect_file(const std::string& path) const {
    const SafetensorsFile file = SafetensorsFile::open(path);
    EXPECT_EQ(file.tensors().size(), values.size());
    for (const auto& [name, tensor] : file.tensors()) {
      ASSERT_TRUE(values.contains(name)) << name;
      EXPECT_EQ(values.at(name).first, tensor.shape) << name;
      const std::string bytes(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
      EXPECT_TRUE(values.at(name).second == bytes) << name;
    }
  }
};

TEST_F(OpenedInC, TellsWhatTheProgramPrints) {
  char* json = nullptr;
  ASSERT_EQ(vitrine_info(model_, &json), VITRINE_DONE);
  EXPECT_EQ(taken(json) + "\n", output_of({"info", model_folder(), "--json"}));
}

TEST_F(OpenedInC, GeneratesWhatTheProgramGenerates) {
  const std::vector<std::pair<std::string, Arguments>> cases = {
      {R"({"max_tokens": 12, "seed": 7})", {"--max-tokens", "12", "--seed", "7"}},
      {R"({"max_tokens": 12, "seed": 7, "greedy": true, "logprobs": 3})",
       {"--max-tokens", "12", "--seed", "7", "--greedy", "--logprobs", "3"}},
      {R"({"max_tokens": 9, "seed": 3, "temperature": 1.5, "top_k": 9, "top_p": 0.8, "stop": ["a"]})",
       {"--max-tokens", "9", "--seed", "3", "--temperature", "1.5", "--top-k", "9", "--top-p", "0.8", "--stop", "a"}},
      {R"({"max_tokens": 6, "seed": 1, "beam": 3, "n_best": 2})",
       {"--max-tokens", "6", "--seed", "1", "--beam", "3", "--n-best", "2"}}};
  const Ids ids = encode(text_);
  for (const auto& [options, arguments] : cases) {
    char* json = nullptr;
    ASSERT_EQ(vitrine_generate(model_, ids.data(), ids.size(), options.c_str(), nullptr, nullptr, &json), VITRINE_DONE)
        << vitrine_error();
    Arguments all = {"generate", model_folder(), text_, "--json"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    EXPECT_EQ(without_times(taken(json)), without_times(output_of(all))) << options;
  }
}

TEST_F(OpenedInC, TakesControlVectors) {
  const std::string pairs = folder_ / "pairs.jsonl", file = folder_ / "c.gguf";
  write_file(pairs, R"({"positive": "I am happy", "negative": "I am sad"})");
  output_of({"control", "make", model_folder(), pairs, "--out", file});
  const std::string control = file + "=3:1-3";
  vitrine_model* model = nullptr;
  const Json options = {{"threads", 2}, {"control", {control}}};
  ASSERT_EQ(vitrine_open(model_folder().c_str(), options.dump().c_str(), &model), VITRINE_DONE) << vitrine_error();
  const Ids ids = encode(text_);
  char* json = nullptr;
  EXPECT_EQ(vitrine_generate(model, ids.data(), ids.size(), R"({"max_tokens": 9, "seed": 7})", nullptr, nullptr, &json),
            VITRINE_DONE);
  Arguments all = {"generate", model_folder(), text_, "--json", "--max-tokens", "9", "--seed", "7"};
  const std::string plain = output_of(all);
  all.insert(all.end(), {"--control", control});
  const Json changed = without_times(taken(json));
  EXPECT_EQ(changed, without_times(output_of(all)));
  EXPECT_NE(changed, without_times(plain));
  vitrine_close(model);
  const Json absent = {{"control", {folder_ / "none.gguf"}}};
  EXPECT_EQ(vitrine_open(model_folder().c_str(), absent.dump().c_str(), &model), VITRINE_BAD_INPUT);
}

TEST_F(OpenedInC, ReadsTheFeaturesOfDictionaries) {
  const std::string data = outside_data("features");
  if (data.empty()) GTEST_SKIP() << "VITRINE_DATA has no features";
  const std::string sae = data + "/saelens-gated";
  const Json options = {{"sae", {sae}}, {"sae_skip", "6"}};
  vitrine_model* model = nullptr;
  ASSERT_EQ(vitrine_open((data + "/gpt2").c_str(), options.dump().c_str(), &model), VITRINE_DONE) << vitrine_error();
  const Ids ids = {5, 6, 7, 8};
  char* json = nullptr;
  EXPECT_EQ(vitrine_features(model, ids.data(), ids.size(), R"({"top": 2})", &json), VITRINE_DONE) << vitrine_error();
  const Arguments all = {"features", data + "/gpt2", "--ids", "5,6,7,8", "--sae", sae, "--sae-skip", "6", "--top", "2"};
  EXPECT_EQ(parse_json(taken(json), "result"), json_of(all));
  Received sites;
  EXPECT_EQ(
      vitrine_run(model, ids.data(), ids.size(), R"({"sites": ["*.hook_sae_acts_post"]})", Received::take_site, &sites),
      VITRINE_DONE);
  EXPECT_EQ(sites.values.at("blocks.1.hook_resid_post.hook_sae_acts_post").first, (std::vector<std::int64_t>{4, 40}));
  vitrine_close(model);
  EXPECT_EQ(vitrine_open((data + "/gpt2").c_str(), R"({"sae_use": "all"})", &model), VITRINE_BAD_INPUT);
}

TEST_F(OpenedInC, HasTheProgramsLogitsSitesAndGradients) {
  const Ids ids = encode(text_);
  const std::string out = folder_ / "out.npy", trace = folder_ / "trace", grad = folder_ / "grad";
  output_of({"logits", model_folder(), text_, "--out", out});
  std::string rows;
  const auto take_row = [](void* user, std::int64_t, const float* row, std::size_t n) {
    static_cast<std::string*>(user)->append(reinterpret_cast<const char*>(row), n * sizeof(float));
    return 0;
  };
  ASSERT_EQ(vitrine_logits(model_, ids.data(), ids.size(), take_row, &rows), VITRINE_DONE) << vitrine_error();
  EXPECT_TRUE(read_file(out).ends_with(rows));
  EXPECT_GT(rows.size(), ids.size() * 100);

  output_of({"trace", model_folder(), text_, "--out", trace});
  Received sites;
  ASSERT_EQ(vitrine_run(model_, ids.data(), ids.size(), nullptr, Received::take_site, &sites), VITRINE_DONE);
  sites.expect_file(trace);

  const std::string printed = output_of({"grad", model_folder(), text_, "--out", grad, "--json"});
  Received gradients;
  double loss = 0;
  ASSERT_EQ(vitrine_grad(model_, ids.data(), ids.size(), Received::take, &gradients, &loss), VITRINE_DONE);
  gradients.expect_file(grad);
  EXPECT_EQ(parse_json(printed, "grad")["loss"].get<double>(), loss);
}

TEST_F(OpenedInC, TrainsAsTheProgramDoes) {
  write_corpus(folder_ / "corpus", 23, 2000);
  TinyRun run;
  run.data = folder_ / "corpus";
  for (const char* name : {"c", "program"}) {
    run.out = folder_ / name;
    write_file(folder_ / (std::string(name) + ".toml"), run.toml());
  }
  char* json = nullptr;
  ASSERT_EQ(vitrine_train((folder_ / "c.toml").c_str(), R"({"threads": 2})", nullptr, nullptr, &json), VITRINE_DONE)
      << vitrine_error();
  Json ours = parse_json(taken(json), "c");
  const Outcome program = run_program({"train", folder_ / "program.toml", "--json"});
  ASSERT_EQ(program.status, 0) << program.err;
  Json theirs = parse_json(program.out, "program");
  const std::string path = ours["checkpoint"], other = theirs["checkpoint"];
  for (const char* file : {"model.safetensors", "trainer_state.safetensors", "config.json"}) {
    EXPECT_EQ(read_file(path + "/" + file), read_file(other + "/" + file)) << file;
  }
  ours.erase("checkpoint");
  theirs.erase("checkpoint");
  EXPECT_EQ(ours, theirs);
}

class PairInC : public testing::TestWithParam<std::string> {
 protected:
  PairInC() {
    write_file(tokenizer_, letter_tokenizer());
    const Json options = {{"threads", 2}, {"tokenizer", tokenizer_}};
    EXPECT_EQ(vitrine_open(path_.c_str(), options.dump().c_str(), &model_), VITRINE_DONE) << vitrine_error();
  }
  ~PairInC() override { vitrine_close(model_); }

  TempFolder folder_;
  const std::string path_ = source_dir() + "/tests/goldens/pairs/" + GetParam(),
                    tokenizer_ = folder_ / "tokenizer.json";
  vitrine_model* model_ = nullptr;
  const Ids source_ = {5, 9, 13, 4};  // "cgkb"
};

TEST_P(PairInC, GeneratesWhatTheProgramGenerates) {
  const std::vector<std::pair<std::string, Arguments>> cases = {
      {R"({"max_tokens": 6, "seed": 1})", {"--max-tokens", "6", "--seed", "1"}},
      {R"({"max_tokens": 6, "seed": 1, "beam": 3, "n_best": 2, "length_penalty": 0.5})",
       {"--max-tokens", "6", "--seed", "1", "--beam", "3", "--n-best", "2", "--length-penalty", "0.5"}},
      {R"({"max_tokens": 5, "seed": 4, "temperature": 1.5, "prefix_ids": [7, 8]})",
       {"--max-tokens", "5", "--seed", "4", "--temperature", "1.5", "--prefix-ids", "7,8"}},
      {R"({"max_tokens": 5, "seed": 4, "prefix": "ef", "target_lang": "k"})",
       {"--max-tokens", "5", "--seed", "4", "--prefix", "ef", "--target-lang", "k"}},
      {R"({"max_tokens": 5, "seed": 4, "target_lang": "k"})",
       {"--max-tokens", "5", "--seed", "4", "--target-lang", "k"}}};
  for (const auto& [options, arguments] : cases) {
    char* json = nullptr;
    ASSERT_EQ(vitrine_generate(model_, source_.data(), source_.size(), options.c_str(), nullptr, nullptr, &json),
              VITRINE_DONE)
        << vitrine_error();
    Arguments all = {"generate", path_, "cgkb", "--json", "--tokenizer", tokenizer_};
    all.insert(all.end(), arguments.begin(), arguments.end());
    Json ours = parse_json(taken(json), "c"), theirs = parse_json(output_of(all), "program");
    EXPECT_EQ(ours["source_ids"], Json(source_));
    ours.erase("timings");
    theirs.erase("timings");
    EXPECT_EQ(ours, theirs) << options;
  }
}

TEST_P(PairInC, HasTheProgramsSites) {
  const std::string trace = folder_ / "trace";
  output_of({"trace", path_, "cgkb", "--tokenizer", tokenizer_, "--target", "ef", "--out", trace});
  for (const char* options : {R"({"target": "ef"})", static_cast<const char*>(nullptr)}) {
    Received sites;
    std::string start = "null";
    if (options == nullptr) {  // the ids of the same target, from the program
      const Json generated =
          parse_json(output_of({"generate", path_, "--ids", "5", "--max-tokens", "0", "--json"}), "");
      start = R"({"target_ids": [)" + generated["prompt_ids"][0].dump() + ", 7, 8]}";
      options = start.c_str();
    }
    ASSERT_EQ(vitrine_run(model_, source_.data(), source_.size(), options, Received::take_site, &sites), VITRINE_DONE)
        << vitrine_error();
    sites.expect_file(trace);
  }
}

TEST_P(PairInC, SaysWhatIsMissing) {
  const auto fails = [&](int code, int expected, const std::string& part) {
    EXPECT_EQ(code, expected);
    EXPECT_NE(std::string(vitrine_error()).find(part), std::string::npos) << vitrine_error();
  };
  const auto row = [](void*, std::int64_t, const float*, std::size_t) { return 0; };
  fails(vitrine_logits(model_, source_.data(), source_.size(), row, nullptr), VITRINE_UNSUPPORTED, "encoder");
  fails(vitrine_run(model_, source_.data(), source_.size(), nullptr, Received::take_site, nullptr), VITRINE_BAD_INPUT,
        "decoder");
  fails(vitrine_grad(model_, source_.data(), source_.size(), Received::take, nullptr, nullptr), VITRINE_UNSUPPORTED,
        "encoder");
  const auto generate = [&](const char* options, std::size_t n) {
    return vitrine_generate(model_, source_.data(), n, options, nullptr, nullptr, nullptr);
  };
  fails(generate(R"({"prefix": "e", "prefix_ids": [7]})", 4), VITRINE_BAD_INPUT, "both");
  fails(generate(R"({"prefix_ids": [-1]})", 4), VITRINE_BAD_INPUT, "prefix_ids: expected a list of ids");
  fails(generate(R"({"prefix_ids": [4000]})", 4), VITRINE_BAD_INPUT, "4000");
  fails(generate(R"({"target_lang": "fr_XX"})", 4), VITRINE_BAD_INPUT, "fr_XX");
  fails(generate(nullptr, 0), VITRINE_BAD_INPUT, "source");
}

INSTANTIATE_TEST_SUITE_P(Families, PairInC, testing::Values("bart", "t5"), [](const auto& name) { return name.param; });

TEST_F(OpenedInC, ADecoderHasNoTarget) {
  const Ids ids = encode(text_);
  EXPECT_EQ(vitrine_generate(model_, ids.data(), ids.size(), R"({"prefix": "a"})", nullptr, nullptr, nullptr),
            VITRINE_BAD_INPUT);
  EXPECT_EQ(vitrine_run(model_, ids.data(), ids.size(), R"({"target": "a"})", Received::take_site, nullptr),
            VITRINE_BAD_INPUT);
}

TEST_F(OpenedInC, RunsFromC99) {
  write_corpus(folder_ / "corpus", 23, 2000);
  TinyRun run;
  run.data = folder_ / "corpus";
  run.out = folder_ / "run";
  write_file(folder_ / "run.toml", run.toml());
  Launch launch;
  launch.program = VITRINE_C99_TEST;
  Program program({model_folder(), folder_ / "run.toml"}, launch);
  const Outcome outcome = program.finish();
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
}

}  // namespace
}  // namespace vitrine::test
