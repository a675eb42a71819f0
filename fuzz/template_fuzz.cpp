// Chat templates: parses one and renders a conversation with it, within small limits. A second rendering that also
// records what the template wrote must give the same text.
#include "fuzzing.h"
#include "template/chat_template.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const TemplateData request = TemplateData::parse(
      R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Grüße <b>"},
          {"role": "assistant", "content": " a ", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1.5}}}]}],
          "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]})",
      "request");
  return fuzz::answer([&] {
    const TemplateLimits limits = {100'000, std::size_t{32} << 20, std::size_t{1} << 20};
    const ChatTemplate parsed(fuzz::text_of(data, size));
    TemplateInput input;
    input.messages = request.member("messages");
    input.tools = request.member("tools");
    input.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    const RenderedTemplate plain = parsed.render(input, limits);
    input.reports_literal = true;
    const RenderedTemplate traced = parsed.render(input, limits);
    fuzz::expect(traced.text == plain.text, "the text does not depend on what is recorded");
    std::int64_t end = 0;
    for (const auto& [begin, stop] : traced.literal) {
      fuzz::expect(begin >= end && stop > begin && stop <= static_cast<std::int64_t>(plain.text.size()),
                   "spans are ascending and within the text");
      end = stop;
    }
  });
}
