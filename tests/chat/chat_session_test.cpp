// What a session of a model with states reads again from turn to turn, and that its answers are those of a new session.
#include "chat/chat_session.h"

#include <gtest/gtest.h>

#include "base/temp_folder.h"
#include "checkpoint/init.h"
#include "checkpoint/load.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

/// Counts the rows of all passes.
class RowCounter : public Taps {
 public:
  bool wants(const SiteId& id) const override { return id.site == Site::embed; }
  Tensor visit(Pass&, const SiteId&, const Tensor& value) override {
    n_rows += value.rows();
    return value;
  }

  std::int64_t n_rows = 0;
};

constexpr const char* kPlain =
    "{% for m in messages %}{{ m.role }}<|endoftext|>{{ m.content }}<|endoftext|>{% endfor %}"
    "{% if add_generation_prompt %}assistant<|endoftext|>{% endif %}";
/// Reads an answer as other tokens than those that were drawn.
constexpr const char* kRewriting =
    "{% for m in messages %}{{ m.role }}<|endoftext|>{% if m.role == 'user' %}{{ m.content }}{% else %}an answer of "
    "{{ m.content | length }} characters{% endif %}<|endoftext|>{% endfor %}"
    "{% if add_generation_prompt %}assistant<|endoftext|>{% endif %}";

class StatefulChat : public testing::TestWithParam<std::string> {
 protected:
  StatefulChat() {
    const Json config = {{"model_type", "vitrine"}, {"layers", GetParam()}, {"d_model", 6},       {"d_hidden", 10},
                         {"n_layers", 2},           {"vocab_size", 4096},   {"max_seq_len", 2048}};
    init_checkpoint(config, "test", folder_ / "m", DType::f32, 3, pool_);
    checkpoint_ = load_checkpoint(folder_ / "m");
    context_ = {checkpoint_.model.get(), &pool_, &default_kernels(), tokenizer_.get()};
  }

  ChatSession session(const char* chat_template, Taps* taps = nullptr) const {
    GenerateContext context = context_;
    context.taps = taps;
    return {context, {{{{"default", chat_template}}, {}}, *tokenizer_, {}, "test"}, {}};
  }

  /// Answers in the session, and in a new one: with the same tokens.
  ChatAnswer answer(ChatSession& session, const std::vector<std::int32_t>& prompt, std::uint64_t seed = 1) const {
    GenerateRequest request;
    request.prompt = prompt;
    request.max_tokens = 12;
    request.seed = seed;
    const auto show = [](const std::string&) {};
    ChatSession fresh = this->session(kPlain);
    const ChatAnswer expected = fresh.answer(request, show);
    EXPECT_EQ(expected.reused_tokens, 0);
    ChatAnswer got = session.answer(request, show);
    EXPECT_EQ(got.ids, expected.ids);
    EXPECT_EQ(got.text, expected.text);
    return got;
  }

  const TempFolder folder_;
  ThreadPool pool_{2};
  const std::shared_ptr<const Tokenizer> tokenizer_ = load_tokenizer(source_dir() + "/models/default");
  Checkpoint checkpoint_;
  GenerateContext context_;
};

TEST_P(StatefulChat, ReadsOnlyWhatIsNew) {
  for (const char* chat_template : {kPlain, kRewriting}) {
    RowCounter counter;
    ChatSession chat = session(chat_template, &counter);
    ChatHistory history;
    history.set_system("Be brief. " + std::string(300, 'x'));
    std::vector<std::int32_t> last;
    for (int turn = 0; turn < 5; ++turn) {
      history.add("user", turn == 2 ? std::string(700, 'y') : "What is " + std::to_string(turn) + "?");
      const std::vector<std::int32_t> prompt = chat.prompt(history, false).ids;
      ASSERT_TRUE(std::equal(last.begin(), last.end(), prompt.begin())) << "the template rewrites no prompt";
      counter.n_rows = 0;
      const ChatAnswer own = answer(chat, prompt);
      EXPECT_GE(own.reused_tokens, std::ssize(last) - 1) << "turn " << turn;
      EXPECT_EQ(chat.n_cached() - own.reused_tokens, counter.n_rows);
      EXPECT_LE(counter.n_rows,
                std::ssize(prompt) - std::max<std::int64_t>(0, std::ssize(last) - 1) + std::ssize(own.ids));
      history.add("assistant", "answer " + std::to_string(turn));
      last = prompt;
    }
  }
}

TEST_P(StatefulChat, RetryAndUndoReturnToSnapshots) {
  RowCounter counter;
  ChatSession chat = session(kPlain, &counter);
  ChatHistory history;
  std::vector<std::vector<std::int32_t>> prompts;
  for (int turn = 0; turn < 3; ++turn) {
    history.add("user", "Question number " + std::to_string(turn));
    prompts.push_back(chat.prompt(history, false).ids);
    answer(chat, prompts.back());
    history.add("assistant", "an answer");
  }
  counter.n_rows = 0;
  const ChatAnswer retried = answer(chat, prompts[2], 2);
  EXPECT_EQ(retried.reused_tokens, std::ssize(prompts[2]) - 1);
  EXPECT_LE(counter.n_rows, 1 + std::ssize(retried.ids));

  history.undo();
  history.add("user", "Another question");
  const std::vector<std::int32_t> other = chat.prompt(history, false).ids;
  EXPECT_GE(answer(chat, other).reused_tokens, std::ssize(prompts[1]) - 1);
  EXPECT_EQ(answer(chat, prompts[1]).reused_tokens, std::ssize(prompts[1]) - 1);
  EXPECT_EQ(answer(chat, {7, 8, 9}).reused_tokens, 0);
}

INSTANTIATE_TEST_SUITE_P(Own, StatefulChat, testing::Values("lstm", "gru", "rnn"),
                         [](const auto& of) { return of.param; });

}  // namespace
}  // namespace vitrine::test
