// vitrine control make, and --control.
#include "cli/program.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

class Control : public testing::Test {
 protected:
  Control() {
    write("pairs.jsonl", R"({"positive": "I am happy", "negative": "I am sad"}
{"positive": "a good day", "negative": "a bad day"}
)");
  }
  static std::string model() { return source_dir() + "/models/default"; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  Json make(const Arguments& more = {}) const {
    Arguments all = {"control", "make", model(), folder_ / "pairs.jsonl", "--out", folder_ / "c.gguf", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return Json::parse(output_of(all));
  }
  Json predicted(const Arguments& more = {}) const {
    Arguments all = {"predict", model(), "Once upon a time", "--top", "3"};
    all.insert(all.end(), more.begin(), more.end());
    return json_of(all)["tokens"];
  }

  const TempFolder folder_;
};

TEST_F(Control, WhatIsMadeChangesAModel) {
  const Json made = make({"--method", "pca", "--pool", "mean"});
  EXPECT_EQ(made["pairs"], 2);
  EXPECT_GT(made["layers"], 1);
  const std::string file = folder_ / "c.gguf";
  EXPECT_NE(predicted({"--control", file + "=3"}), predicted());
  EXPECT_EQ(predicted({"--control", file + "=0:1-2"}), predicted());
  EXPECT_EQ(predicted({"--control", file + "=3:0-0"}), predicted()) << "block 0 is never changed";
  EXPECT_NE(predicted({"--control", file + "=3:1-1"}), predicted({"--control", file + "=3"}));
}

TEST_F(Control, PairsMayBeConversations) {
  write("template.jinja",
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}");
  write("pairs.jsonl",
        R"({"positive": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Oh, hi!"}],)"
        R"( "negative": {"messages": [{"role": "user", "content": "Hi"}]}})");
  EXPECT_EQ(make({"--template", folder_ / "template.jinja"})["pairs"], 1);
  const std::string of_messages = read_file(folder_ / "c.gguf");
  write("pairs.jsonl", R"({"positive": "user: Hi\nassistant: Oh, hi!\n", "negative": "user: Hi\nassistant:"})");
  make();
  EXPECT_EQ(of_messages.size(), read_file(folder_ / "c.gguf").size());
}

TEST_F(Control, ErrorsNameTheLine) {
  const auto refusal = [&](const std::string& line, const std::string& part) {
    write("pairs.jsonl", R"({"positive": "a", "negative": "b"})"
                         "\n" +
                             line + "\n");
    expect_error({"control", "make", model(), folder_ / "pairs.jsonl", "--out", folder_ / "none.gguf"},
                 {"pairs.jsonl, line 2", part});
  };
  refusal("{", "");
  refusal("3", "positive");
  refusal(R"({"positive": "a"})", "negative");
  refusal(R"({"positive": "a", "negative": 3})", "expected a text or messages, got 3");
  refusal(R"({"positive": "a", "negative": []})", "at least one message");
  refusal(R"({"positive": "a", "negative": "b", "neutral": "c"})", "alone");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none.gguf"));
  write("pairs.jsonl", "");
  expect_error({"control", "make", model(), folder_ / "pairs.jsonl", "--out", folder_ / "none.gguf"}, {"got none"});
}

/// Everything that runs a model takes it.
TEST_F(Control, EveryCommandTakesIt) {
  make();
  const std::string control = folder_ / "c.gguf=6";
  const std::vector<Arguments> commands = {{"generate", model(), "Once", "--max-tokens", "20", "--seed", "1"},
                                           {"logits", model(), "Once upon", "--out", folder_ / "l.npy"},
                                           {"trace", model(), "Once upon", "--out", folder_ / "t.safetensors"},
                                           {"grad", model(), "Once upon", "--out", folder_ / "g.safetensors"},
                                           {"lens", model(), "Once upon"},
                                           {"attribute", model(), "Once upon", "--token", "#5"},
                                           {"heads", model(), "Once upon"},
                                           {"encode", model(), "Once upon"},
                                           {"bench", model(), "--prompt", "8", "--generate", "2", "--repeats", "1"}};
  for (Arguments command : commands) {
    const std::string name = command[0];
    const std::string plain = name == "bench" ? "" : output_of(command);
    command.insert(command.end(), {"--control", control});
    const std::string changed = output_of(command);
    const bool prints_values = name == "generate" || name == "lens" || name == "attribute" || name == "encode";
    EXPECT_TRUE(!prints_values || changed != plain) << name;
  }
}

TEST_F(Control, ChatsSetThem) {
  make();
  const std::string control = folder_ / "c.gguf=2:1-3";
  write("template.jinja", "{% for m in messages %}{{ m.content }} {% endfor %}");
  const Outcome plain =
      run_program({"chat", model(), "--template", folder_ / "template.jinja", "--seed", "3", "--max-tokens", "6"},
                  {.input = "Once\n/exit\n"});
  const Outcome changed =
      run_program({"chat", model(), "--template", folder_ / "template.jinja", "--seed", "3", "--max-tokens", "6"},
                  {.input = "/set control " + control + "\n/set control\nOnce\n/exit\n"});
  EXPECT_EQ(changed.status, 0) << changed.err;
  EXPECT_NE(changed.out, plain.out);
  EXPECT_THAT(changed.out + changed.err, HasSubstr(control));
  const Outcome back =
      run_program({"chat", model(), "--template", folder_ / "template.jinja", "--seed", "3", "--max-tokens", "6"},
                  {.input = "/set control " + control + "\n/set control -\nOnce\n/exit\n"});
  EXPECT_EQ(back.out, plain.out);
}

}  // namespace
}  // namespace vitrine::test
