#include "serve/doors.h"

#include "chat/chat_answers.h"

namespace vitrine {

std::string named_event(const OrderedJson& json) {
  return fmt::format("event: {}\ndata: {}\n\n", json["type"].get_ref<const std::string&>(), json_text(json));
}

void append_text(std::string& text, std::string_view separator, std::string_view more) {
  if (!text.empty() && !more.empty()) text += separator;
  text += more;
}

DoorReply::DoorReply(const ServedModel& model, const CompletionRequest& request) : model_(model), request_(request) {
  for (const Prompt& prompt : request.prompts) usage_.prompt_tokens += std::ssize(prompt.ids);
  if (request.answers == nullptr) return;
  usage_.reasoning_tokens = 0;
  reader_.emplace(request.answers->reader());
}

void DoorReply::count(const GenerateResult& result) {
  usage_.completion_tokens = std::ssize(result.ids);
  usage_.cached_tokens = result.cached_tokens;
  if (reader_) usage_.reasoning_tokens = request_.answers->n_reasoning(*model_.tokenizer, result.ids);
}

answer::AnswerDelta DoorReply::append(std::string_view text) {
  return reader_ ? reader_->append(text) : answer::AnswerDelta{.content = std::string(text)};
}

answer::AnswerDelta DoorReply::finish() { return reader_ ? reader_->finish() : answer::AnswerDelta{}; }

answer::AnswerDelta DoorReply::whole_answer(std::string_view text) {
  answer::AnswerDelta all = append(text);
  if (!reader_) return all;
  reader_->finish();
  return reader_->answer();
}

std::string DoorReply::call_id(const answer::AnswerDelta::Call& call) const {
  return call.id.empty() ? request_.answers->call_id(request_.given.seed.value_or(0), 0, call.index) : call.id;
}

}  // namespace vitrine
