// A line of a file of conversations.
#include "conversation/conversation.h"
#include "fuzzing.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::answer([&] {
    const ConversationLine line = parse_conversation(fuzz::text_of(data, size), "f");
    for (const Conversation& one : line.conversations) {
      fuzz::expect(one.ids.size() == one.learned.size(), "each id is learned or not");
      if (one.form != Conversation::Form::messages) continue;
      fuzz::expect(one.n_given <= one.messages.list->items.size(), "a prompt is a part of the conversation");
    }
  });
}
