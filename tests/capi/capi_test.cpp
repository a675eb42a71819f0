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
