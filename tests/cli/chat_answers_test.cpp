// vitrine chat: answers that have a reasoning, or calls of tools.
#include "cli/chat_command.h"

namespace vitrine::test {
namespace {

/// A template whose prompt begins a reasoning, if a variable does not turn it off, and which writes calls.
constexpr const char* kThinking =
    "{% for t in tools or [] %}T{{ t | tojson }}{% endfor %}{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n{% endif %}{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}~{\"name\": \"{{ c.function.name }}\", \"arguments\": "
    "{{ c.function.arguments | tojson }}}^{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is defined and not enable_thinking %}"
    "<think></think>{% else %}<think>\n{% endif %}{% endif %}";

TEST_F(ChatCommand, AReasoningIsNotTheAnswer) {
  write_file(model_ + "/chat_template.jinja", kThinking);
  const Arguments number = {"--regex", "[0-9]{3}", "--seed", "2", "--thinking-budget", "4", "--max-tokens", "30"};
  const std::string session = folder_ / "s.json";
  Arguments with_session = number;
  with_session.insert(with_session.end(), {"--session", session});
  const Json turn = turns(with_session, "a\n").at(0);
  const std::string content = turn["message"]["content"];
  EXPECT_EQ(content.size(), 3U) << turn;
  EXPECT_EQ(content.find_first_not_of("0123456789"), content.npos) << turn;
  EXPECT_FALSE(turn["message"]["reasoning_content"].get<std::string>().empty());
  EXPECT_EQ(turn["finish_reason"], "stop");
  EXPECT_EQ(Json::parse(read_file(session))["messages"][1], turn["message"]);
  EXPECT_EQ(output_of(chat(number), {.input = "a\n"}), content + "\n") << "from a pipe";

  Arguments without = {"--regex", "[0-9]{3}", "--reasoning-effort", "none", "--max-tokens", "4"};
  const Json off = turns(without, "a\n").at(0);
  EXPECT_FALSE(off["message"].contains("reasoning_content"));
  EXPECT_EQ(off["message"]["content"].get<std::string>().size(), 3U);
  write_file(model_ + "/chat_template.jinja", kChatTemplate);
  const Outcome o = run_program(chat(without), {.input = "a\n"});
  EXPECT_NE(o.err.find("[reasoning_effort]"), o.err.npos) << o.err;
}

TEST_F(ChatCommand, CallsHaveTheArgumentsOfTheirTools) {
  patch_config(model_, [](Json& config) { config["max_position_embeddings"] = 1024; });
  write_file(model_ + "/chat_template.jinja", kThinking);
  write_file(folder_ / "tools.json",
             R"([{"type": "function", "function": {"name": "f", "description": "d", "parameters":
      {"type": "object", "properties": {"n": {"enum": [12]}}, "required": ["n"], "additionalProperties": false}}}])");
  write_file(folder_ / "history.json", R"([{"role": "user", "content": "a"}])");
  const Arguments more = {"--messages",
                          folder_ / "history.json",
                          "--tools",
                          folder_ / "tools.json",
                          "--max-tokens",
                          "99",
                          "--reasoning-effort",
                          "none",
                          "--temperature",
                          "1",
                          "--regex",
                          "x?",
                          "--seed"};
  int n_calls = 0;
  for (int seed = 0; seed < 12; ++seed) {  // x, the mark of a call, or the end
    Arguments all = chat(more);
    all.insert(all.end(), {std::to_string(seed), "--json"});
    const Json message = json_of(all)["message"];
    EXPECT_LE(message["content"].get<std::string>().size(), 1U);
    for (const Json& call : message.value("tool_calls", Json::array())) {
      ++n_calls;
      EXPECT_EQ(call["function"]["name"], "f");
      EXPECT_EQ(Json::parse(call["function"]["arguments"].get<std::string>()), Json::parse(R"({"n": 12})"));
    }
  }
  EXPECT_GT(n_calls, 0);
}

}  // namespace
}  // namespace vitrine::test
