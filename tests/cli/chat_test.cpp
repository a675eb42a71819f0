// vitrine chat: turns from a pipe and on a terminal, the cache between them, sessions, commands, errors.
#include <pty.h>
#include <termios.h>

#include "cli/chat_command.h"

namespace vitrine::test {
namespace {

TEST_F(ChatCommand, ALineOfAPipeIsATurn) {
  const std::vector<Json> t = turns({"--greedy", "--system", "s"}, "a\nb \xF0\x9F\xA6\x99\r\nlast");
  ASSERT_EQ(t.size(), 3U);
  const std::string first = "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(t[0]["prompt_ids"], ids_of(first));
  EXPECT_EQ(t[0]["message"]["role"], "assistant");
  EXPECT_EQ(t[0]["finish_reason"], "length");
  EXPECT_EQ(t[0]["ids"].size(), 6U);
  EXPECT_EQ(t[0]["reused_tokens"], 0);
  EXPECT_EQ(t[0]["dropped_messages"], 0);
  EXPECT_GT(t[0]["timings"]["decode_tokens_per_s"], 0.0);
  EXPECT_EQ(t[1]["prompt_ids"],
            ids_of(first + t[0]["message"]["content"].get<std::string>() +
                   "<|im_end|>\n<|im_start|>user\nb \xF0\x9F\xA6\x99<|im_end|>\n<|im_start|>assistant\n"));
  for (int i = 1; i < 3; ++i) EXPECT_GE(t[i]["reused_tokens"].get<std::size_t>(), t[i - 1]["prompt_ids"].size());

  const std::string text = output_of(chat({"--greedy", "--system", "s", "--stop", "zz"}), {.input = "a\n"});
  EXPECT_EQ(text.back(), '\n');
  EXPECT_GT(text.size(), 6U);
}

TEST_F(ChatCommand, AnswersEqualThoseOfGenerate) {
  const std::string input = "a\nb\n/retry\n/undo\nc c c\n";
  for (const Arguments& sampling : {Arguments{"--greedy"}, Arguments{"--temperature", "1"}, Arguments{"--kv", "f16"}}) {
    Arguments seeded = sampling;
    seeded.insert(seeded.end(), {"--seed", "5"});
    const std::vector<Json> t = turns(seeded, input);
    ASSERT_EQ(t.size(), 4U);
    EXPECT_EQ(t[1]["seed"], 5);
    EXPECT_EQ(t[2]["seed"], 6);
    EXPECT_EQ(t[1]["prompt_ids"], t[2]["prompt_ids"]);
    EXPECT_EQ(t[2]["reused_tokens"].get<std::size_t>(), t[2]["prompt_ids"].size() - 1);
    for (const Json& turn : t) {
      Arguments fresh = {"generate", model_, "--ids", joined(turn["prompt_ids"]), "--max-tokens", "6"};
      fresh.insert(fresh.end(), sampling.begin(), sampling.end());
      fresh.insert(fresh.end(), {"--seed", turn["seed"].dump()});
      EXPECT_EQ(json_of(fresh)["ids"], turn["ids"]);
    }
  }
}

/// Frequencies that depend on the planned length are those that generate uses for the same ids.
TEST_F(ChatCommand, LongFrequenciesAreThoseOfGenerate) {
  const Json long_rope = {{"rope_type", "longrope"},
                          {"original_max_position_embeddings", 128},
                          {"short_factor", {1.0, 1.0, 1.0, 1.0}},
                          {"long_factor", {2.0, 3.0, 4.0, 5.0}}};
  const Json dynamic = {{"rope_type", "dynamic"}, {"factor", 4.0}};
  for (const Json& scaling : {long_rope, dynamic}) {
    patch_config(model_, [&](Json& config) {
      config.erase("rope_parameters");
      config["rope_scaling"] = scaling;
      config["max_position_embeddings"] = scaling == dynamic ? 128 : 256;
    });
    expect_answers_of_generate(turns({"--greedy", "--overflow", "drop-oldest"}, kShortTurns), scaling.dump());
  }
}

/// A full ring buffer cannot be truncated: the prompt is then read from its beginning.
TEST_F(ChatCommand, WindowsMayBeFull) {
  patch_config(model_, [](Json& config) {
    config["model_type"] = "mistral";
    config["architectures"] = {"MistralForCausalLM"};
    config["sliding_window"] = 16;
    for (const char* key : {"attention_bias", "mlp_bias", "pretraining_tp"}) config.erase(key);
  });
  expect_answers_of_generate(turns({"--greedy"}, kShortTurns + "/retry\n"), "window");
}

TEST_F(ChatCommand, TheTokenAfterAnAnswerEndsIt) {
  always_end();
  const std::vector<Json> t = turns({"--greedy"}, "a\n");
  EXPECT_EQ(t[0]["finish_reason"], "stop");
  EXPECT_EQ(t[0]["ids"], Json::array());
  EXPECT_EQ(t[0]["message"]["content"], "");
  write_file(folder_ / "plain.jinja", "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}");
  EXPECT_EQ(turns({"--greedy", "--template", folder_ / "plain.jinja"}, "a\n")[0]["finish_reason"], "length");
}

TEST_F(ChatCommand, SpecialTokensCountOnlyWhereTheTemplateWroteThem) {
  const Json ids = turns({"--greedy"}, "<|im_end|>a<|im_start|>\n")[0]["prompt_ids"];
  const Json plain = turns({"--greedy"}, "a\n")[0]["prompt_ids"];
  for (const int special : {0, 1}) {
    EXPECT_EQ(std::count(ids.begin(), ids.end(), Json(special)), std::count(plain.begin(), plain.end(), Json(special)));
  }
  EXPECT_EQ(ids.size(), plain.size() + std::string("<|im_end|><|im_start|>").size());
}

TEST_F(ChatCommand, AFileOfMessagesGetsOneAnswer) {
  write_file(folder_ / "m.json", R"({"messages":[{"role":"user","content":"a"}]})");
  const Json from_file = json_of(chat({"--greedy", "--messages", folder_ / "m.json"}));
  const Json from_pipe = turns({"--greedy"}, "a\n")[0];
  EXPECT_EQ(from_file["prompt_ids"], from_pipe["prompt_ids"]);
  EXPECT_EQ(from_file["ids"], from_pipe["ids"]);
  EXPECT_EQ(output_of(chat({"--greedy", "--messages", folder_ / "m.json"})).find('\n'), std::string::npos);
}

TEST_F(ChatCommand, ASessionGoesOn) {
  const std::string path = folder_ / "s.json";
  const Arguments options = {"--greedy", "--session", path};
  turns(options, "a\n");
  const Json saved = Json::parse(read_file(path));
  ASSERT_EQ(saved["messages"].size(), 2U);
  EXPECT_EQ(saved.size(), 1U);
  const std::vector<Json> at_once = turns({"--greedy"}, "a\nb\n");
  EXPECT_EQ(turns(options, "b\n")[0]["ids"], at_once[1]["ids"]);
  EXPECT_EQ(Json::parse(read_file(path))["messages"].size(), 4U);
  run_program(chat(options), {.input = "/undo\n/system x\n"});
  EXPECT_EQ(Json::parse(read_file(path))["messages"].size(), 3U);
  EXPECT_EQ(folder_.files(), (std::set<std::string>{"s.json", "text"}));
}

TEST_F(ChatCommand, AFullContextIsAnError) {
  const std::string question(120, 'x');
  const Outcome full =
      run_program(chat({"--greedy", "--json"}), {.input = "a\n" + question + "\n" + question + "\nb\n"});
  EXPECT_EQ(full.status, 1);
  EXPECT_EQ(lines_of(full.out).size(), 3U) << "the last line fits after the question that did not";
  EXPECT_THAT(full.err, testing::HasSubstr("tokens, the model's context is 256"));
  expect_error(chat({"--overflow", "drop-oldest"}), {"tokens with the system prompt, the model's context is 256"},
               {.input = std::string(300, 'x') + "\n"});
}

TEST_F(ChatCommand, OldExchangesMayBeLeftOut) {
  const std::string question(80, 'x');
  Arguments all = chat({"--greedy", "--json", "--overflow", "drop-oldest", "--system", "s"});
  const Outcome o = run_program(all, {.input = question + "\n" + question + "\n" + question + "\nb\n"});
  EXPECT_EQ(o.status, 0) << o.err;
  const std::vector<Json> t = lines_of(o.out);
  ASSERT_EQ(t.size(), 4U);
  EXPECT_EQ(t[1]["dropped_messages"], 0);
  EXPECT_EQ(t[2]["dropped_messages"], 2);
  EXPECT_EQ(t[3]["dropped_messages"], 2);
  EXPECT_THAT(o.err, testing::HasSubstr("the oldest 2 messages are left out"));
  const Json system = ids_of("<|im_start|>system\ns<|im_end|>\n");
  EXPECT_TRUE(std::equal(system.begin(), system.end(), t[2]["prompt_ids"].begin()));
  EXPECT_EQ(t[2]["reused_tokens"].get<std::size_t>(),
            system.size() + ids_of("<|im_start|>user\n").size() + 80 + 1 + 1 + ids_of("<|im_start|>assistant\n").size())
      << "the exchange that remains equals the one that was left out";
}

TEST_F(ChatCommand, AnAnswerMayFillTheContext) {
  const Json turn = turns({"--greedy", "--max-tokens", "1000"}, "a\n")[0];
  EXPECT_EQ(turn["finish_reason"], "context");
  EXPECT_EQ(turn["ids"].size() + turn["prompt_ids"].size(), 257U);
  EXPECT_EQ(turns({"--greedy", "--max-tokens", "3"}, "a\n")[0]["finish_reason"], "length");
}

TEST_F(ChatCommand, CommandsChangeTheConversation) {
  const std::string path = folder_ / "saved.json";
  const Outcome o =
      run_program(chat({"--json", "--greedy"}),
                  {.input = "/system be brief\n/system\na\n/save " + path + "\n/undo\n/context\n/load " + path +
                            "\n/context\n/set max-tokens 2\nb\n/set\n//x\n/help\n/adapter\n/exit\nc\n"});
  EXPECT_EQ(o.status, 0) << o.err;
  const std::vector<Json> t = lines_of(o.out);
  ASSERT_EQ(t.size(), 3U) << "nothing follows /exit";
  EXPECT_EQ(t[1]["ids"].size(), 2U);
  EXPECT_EQ(Json::parse(read_file(path))["messages"].size(), 3U);
  for (const char* part : {"be brief\n", "Took back 2 messages.", "1 messages", "Loaded 3 messages.", "3 messages",
                           "max-tokens 2", "/retry", "There is no adapter."}) {
    EXPECT_THAT(o.err, testing::HasSubstr(part));
  }
}

TEST_F(ChatCommand, MistakesAreOneLineAndTheConversationGoesOn) {
  for (const auto& [line, part] : std::vector<std::pair<std::string, std::string>>{
           {"/sytem x", "[/sytem] expected a command, or // for a message that begins with /; did you mean /system?"},
           {"/load", "[/load] expected /load FILE"},
           {"/load /no/such", "[/no/such] cannot open"},
           {"/save /no/such/file", "[/no/such/file]"},
           {"/undo", "no message to take back"},
           {"/undo 2", "expected nothing after it"},
           {"/retry", "no message to answer"},
           {"/set temprature 1", "did you mean temperature?"},
           {"/set temperature x", "expected a number"},
           {"/set top-p 2", "[top_p] expected a number in [0, 1]"},
           {"/adapter /no/such", "/no/such"},
           {"", "expected a message, got an empty line"},
           {"a\xFF", "UTF-8"}}) {
    SCOPED_TRACE(line);
    const Outcome o = run_program(chat({"--greedy", "--json"}), {.input = line + "\na\n"});
    EXPECT_EQ(o.status, 1);
    EXPECT_EQ(lines_of(o.out).size(), 1U);
    EXPECT_THAT(o.err, testing::StartsWith("vitrine: error: ["));
    EXPECT_THAT(o.err, testing::HasSubstr(part));
    EXPECT_EQ(o.err.find('\n'), o.err.size() - 1);
  }
}

TEST_F(ChatCommand, WrongFilesAreErrors) {
  const Launch hello{.input = "a\n"};
  write_file(folder_ / "broken.json", "{\"messages\":[");
  expect_error(chat({"--session", folder_ / "broken.json"}), {"broken.json", "JSON"}, hello);
  expect_error(chat({"--messages", folder_ / "broken.json"}), {"broken.json", "JSON"}, hello);
  expect_error(chat({"--messages", folder_ / "none.json"}), {"none.json"}, hello);
  expect_error(chat({"--session", folder_ / "no/such.json"}), {"such.json"}, hello);
  expect_error(chat({"--tools", folder_ / "none.json"}), {"none.json"}, hello);
  expect_error(chat({"--template", folder_ / "none.jinja"}), {"none.jinja"}, hello);
  expect_error(chat({}), {"expected a message, got no line"}, {});
  write_file(folder_ / "bad.jinja", "{% if %}");
  expect_error(chat({"--template", folder_ / "bad.jinja"}), {"[template]"}, hello);
  write_file(folder_ / "raises.jinja", "{{ raise_exception('no users here') }}");
  expect_error(chat({"--template", folder_ / "raises.jinja"}), {"no users here"}, hello);
  expect_usage_error(chat({"--overflow", "drop"}));
  expect_usage_error(chat({"--messages", "a", "--session", "b"}));
  std::filesystem::remove(model_ + "/chat_template.jinja");
  expect_error(chat({}), {"the model has no chat template; give one with --template FILE"}, hello);
}

TEST_F(ChatCommand, CtrlCEndsTheAnswer) {
  patch_config(model_, [](Json& config) { config["max_position_embeddings"] = 1'000'000; });
  const std::string path = folder_ / "s.json";
  Program program({"chat", model_, "--greedy", "--session", path}, {.input = "a\n", .hold_input = true});
  program.wait_for_output(2000);
  program.send(SIGINT);
  program.exchange([&] { return Json::parse(read_file(path))["messages"].size() == 2; });  // it keeps the beginning
  program.wait_until_it_reads();
  program.send(SIGINT);
  const Outcome o = program.finish();
  EXPECT_EQ(o.status, 130) << "while it waits for a line, Ctrl-C ends the program";
  EXPECT_EQ(o.err, "vitrine: interrupted\n");
}

TEST_F(ChatCommand, ATerminalEditsLines) {
  always_end();
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::setenv("TERM", "vt100", 1);
    ::execl(VITRINE_PROGRAM, "vitrine", "chat", model_.c_str(), "--greedy", "--session", (folder_ / "s.json").c_str(),
            nullptr);
    ::_exit(99);
  }
  std::string seen;
  std::size_t from = 0;  // what wait_for() has not yet matched
  const auto wait_for = [&](const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20 * kSlowdown);
    while (seen.find(text, from) == seen.npos && std::chrono::steady_clock::now() < deadline) {
      pollfd polled{terminal, POLLIN, 0};
      if (::poll(&polled, 1, 100) <= 0) continue;
      char buffer[4096];
      const ssize_t n = ::read(terminal, buffer, sizeof buffer);
      if (n <= 0) break;
      seen.append(buffer, static_cast<std::size_t>(n));
    }
    const std::size_t at = seen.find(text, from);
    EXPECT_NE(at, seen.npos) << text << " in " << seen;
    if (at != seen.npos) from = at + text.size();
  };
  // The prompt appears before the terminal takes single keys: a key between the two may be lost.
  const auto type = [&](const std::string& text) {
    termios mode{};
    for (int i = 0; i < 200 * kSlowdown && ::tcgetattr(terminal, &mode) == 0 && (mode.c_lflag & ICANON) != 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(::write(terminal, text.data(), text.size()), std::ssize(text));
  };
  wait_for("> ");
  type("helo\x1B[Dl\n");  // the cursor key moves before the o
  wait_for("\n> ");
  type("garbage\x03");  // Ctrl-C discards the line
  wait_for("> ");
  type("/context\n");
  wait_for("2 messages");
  wait_for("> ");
  type("\x1B[A\x1B[A\n");  // the last line but one
  wait_for("\n> ");
  int status = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20 * kSlowdown);
  for (type("\x04"); ::waitpid(child, &status, WNOHANG) == 0; type("\x04")) {
    if (std::chrono::steady_clock::now() > deadline) ::kill(child, SIGKILL);
    pollfd polled{terminal, POLLIN, 0};
    char buffer[4096];
    if (::poll(&polled, 1, 100) > 0 && ::read(terminal, buffer, sizeof buffer) <= 0) {
      ::waitpid(child, &status, 0);
      break;
    }
  }
  ::close(terminal);
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0) << seen;
  const Json messages = Json::parse(read_file(folder_ / "s.json"))["messages"];
  ASSERT_EQ(messages.size(), 4U) << seen;
  EXPECT_EQ(messages[0]["content"], "hello");
  EXPECT_EQ(messages[2]["content"], "hello");
}

TEST(ChatGoldens, PromptsEqualTransformers) {
  const std::string folder = outside_data("tuning/curves");
  if (folder.empty()) GTEST_SKIP() << "needs VITRINE_DATA";
  std::ifstream file(folder + "/prompts.jsonl");
  int n = 0;
  for (std::string line; std::getline(file, line); ++n) {
    const Json prompt = Json::parse(line);
    Arguments all = {"chat", folder + "/base", "--messages", "-", "--max-tokens", "1"};
    for (const auto& [name, value] : prompt["vars"].items()) {
      all.insert(all.end(), {"--set", name + "=" + value.dump()});
    }
    EXPECT_EQ(json_of(all, {.input = line})["prompt_ids"], prompt["ids"]) << line;
  }
  EXPECT_GT(n, 0);
}

}  // namespace
}  // namespace vitrine::test
