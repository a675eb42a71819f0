// A small model for tests of conversations.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "cli/program.h"

namespace vitrine::test {

inline constexpr const char* kChatTemplate =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

class ChatCommand : public testing::Test {
 protected:
  /// A random Llama with a context of 256 tokens, without EOS; <|im_end|> is id 0, and <|im_start|> is id 1.
  void SetUp() override {
    output_of({"init",       "llama-2-7b",      model_,
               "--set",      "d_model=32",      "--set",
               "n_layers=2", "--set",           "n_heads=4",
               "--set",      "n_kv_heads=4",    "--set",
               "d_ff=64",    "--set",           "vocab_size=258",
               "--set",      "max_seq_len=256", "--dtype",
               "f32",        "--seed",          "1",
               "--json"});
    patch_config(model_, [](Json& config) { config["eos_token_id"] = nullptr; });
    write_file(folder_ / "text", "a");
    output_of({"tokenizer", "train", folder_ / "text", "--vocab-size", "258", "--special", "<|im_end|>", "--special",
               "<|im_start|>", "--out", model_ + "/tokenizer.json", "--json"});
    write_file(model_ + "/chat_template.jinja", kChatTemplate);
  }

  Arguments chat(const Arguments& more) const {
    Arguments all = {"chat", model_};
    all.insert(all.end(), more.begin(), more.end());
    const bool has_length = std::find(more.begin(), more.end(), "--max-tokens") != more.end();
    if (!has_length) all.insert(all.end(), {"--max-tokens", "6"});
    return all;
  }
  static std::vector<Json> lines_of(const std::string& out) {
    std::vector<Json> lines;
    for (std::size_t begin = 0; begin < out.size();) {
      const std::size_t end = out.find('\n', begin);
      lines.push_back(Json::parse(out.substr(begin, end - begin)));
      begin = end + 1;
    }
    return lines;
  }
  std::vector<Json> turns(const Arguments& more, const std::string& input) const {
    Arguments all = chat(more);
    all.push_back("--json");
    const Outcome o = run_program(all, {.input = input});
    EXPECT_EQ(o.status, 0) << o.err;
    return lines_of(o.out);
  }
  Json ids_of(const std::string& text) const {
    return json_of({"tokenize", model_ + "/tokenizer.json", "-"}, {.input = text})["ids"];
  }
  /// All logits are 0, so that greedy generation takes id 0.
  void always_end() const {
    patch_tensor(model_, "lm_head.weight", [](std::span<float> w) { std::fill(w.begin(), w.end(), 0.0f); });
  }

  /// The prompt of the last of these turns has more than 128 tokens.
  static inline const std::string kShortTurns = "a\nb\nc c c\nd\ne\n";

  void expect_answers_of_generate(const std::vector<Json>& turns, const std::string& what) const {
    ASSERT_GE(turns.size(), 4U) << what;
    EXPECT_GT(turns.back()["prompt_ids"].size(), 128U) << what;
    for (const Json& turn : turns) {
      const Json fresh =
          json_of({"generate", model_, "--ids", joined(turn["prompt_ids"]), "--max-tokens", "6", "--greedy"});
      EXPECT_EQ(fresh["ids"], turn["ids"]) << what << ", " << turn["prompt_ids"].size() << " tokens";
    }
  }

  const TempFolder folder_;
  const std::string model_ = folder_ / "model";
};

}  // namespace vitrine::test
