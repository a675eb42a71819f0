#include "conversation/encoder.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "conversation/token_spans.h"

namespace vitrine {
namespace {

using jinja::Value;
using Ids = std::vector<std::int32_t>;
using Mask = ConversationOptions::Mask;
using Learn = ConversationOptions::Learn;

/// Whether a template has the tag `{% generation %}`.
bool has_generation(std::string_view source) {
  constexpr std::string_view kName = "generation", kBlank = " \t\r\n";
  for (std::size_t at = source.find("{%"); at != source.npos; at = source.find("{%", at + 2)) {
    std::string_view tag = source.substr(at + 2);
    if (!tag.empty() && (tag[0] == '-' || tag[0] == '+')) tag.remove_prefix(1);
    tag.remove_prefix(std::min(tag.find_first_not_of(kBlank), tag.size()));
    if (!tag.starts_with(kName)) continue;
    tag.remove_prefix(kName.size());
    tag.remove_prefix(std::min(tag.find_first_not_of(kBlank), tag.size()));
    if (tag.starts_with("%}") || tag.starts_with("-%}") || tag.starts_with("+%}")) return true;
  }
  return false;
}

/// The number of ids that two sequences have in common at their beginnings.
std::size_t common_length(const Ids& a, const Ids& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

bool begins_with(const Ids& ids, const Ids& first, std::size_t n) {
  return n <= ids.size() && std::equal(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(n), ids.begin());
}

void learn_all(Sample& sample) { sample.learned.assign(sample.ids.size(), 1); }

}  // namespace

std::int64_t Sample::n_learned() const {
  return learned.empty() ? 0 : std::accumulate(learned.begin() + 1, learned.end(), std::int64_t{0});
}

/// The beginnings of one conversation, rendered and encoded.
class ConversationEncoder::Turns {
 public:
  Turns(const ConversationEncoder& encoder, const Conversation& conversation)
      : heap_(std::size_t{64} << 20),
        messages_(conversation.messages.list->items),
        n_given_(conversation.n_given),
        tokenizer_(*encoder.model_.tokenizer),
        template_(encoder.template_for(conversation.tools.is(jinja::Kind::list))) {
    input_.special_tokens = encoder.model_.templates.special_tokens;
    input_.tools = &conversation.tools;
    input_.now = encoder.options_.now;
  }

  const Template& chat_template() const { return template_; }
  std::size_t n_messages() const { return messages_.size(); }
  std::size_t n_given() const { return n_given_; }

  /// The messages of the assistant that are learned, by their index.
  std::vector<std::size_t> answers(Learn learn) const {
    std::vector<std::size_t> result;
    for (std::size_t i = n_given_; i < messages_.size(); ++i) {
      if (messages_[i].dict->find("role")->text() == "assistant") result.push_back(i);
    }
    if (learn == Learn::last && result.size() > 1) result.erase(result.begin(), result.end() - 1);
    return result;
  }

  /// The first `n` messages.
  RenderedTemplate render(std::size_t n, bool with_prompt) {
    auto* const first = heap_.make<jinja::List>(heap_);
    first->items.assign(messages_.begin(), messages_.begin() + static_cast<std::ptrdiff_t>(n));
    const Value messages = jinja::list(first);
    input_.messages = &messages;
    input_.add_generation_prompt = with_prompt;
    return template_.parsed.render(input_);
  }
  Ids ids(std::size_t n, bool with_prompt) { return encode(render(n, with_prompt).text); }
  Ids encode(const std::string& text) const { return tokenizer_.encode(text, SpecialTokens::written); }
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  jinja::Heap heap_;
  const std::pmr::vector<Value>& messages_;
  std::size_t n_given_;
  const Tokenizer& tokenizer_;
  const Template& template_;
  TemplateInput input_;
};

ConversationEncoder::ConversationEncoder(ConversationModel model, const ConversationOptions& options)
    : model_(std::move(model)), options_(options), default_(parse("default")), tool_use_(parse("tool_use")) {
  const bool has_marks = (default_ && default_->has_marks) || (tool_use_ && tool_use_->has_marks);
  if (options.mask == Mask::marks && !has_marks) {
    throw BadInput(model_.where, "mask = \"marks\": the chat template has no {{% generation %}}");
  }
  find_ends();
}

std::optional<ConversationEncoder::Template> ConversationEncoder::parse(const char* name) const {
  const auto found = model_.templates.by_name.find(name);
  if (found == model_.templates.by_name.end()) return std::nullopt;
  return Template{ChatTemplate(found->second), has_generation(found->second)};
}

const ConversationEncoder::Template& ConversationEncoder::template_for(bool has_tools) const {
  if (has_tools && tool_use_) return *tool_use_;
  if (default_) return *default_;
  model_.templates.choose(has_tools, model_.where);  // throws: there is none
  return *tool_use_;
}

void ConversationEncoder::find_ends() {
  end_ids_ = model_.stop_ids;
  const Tokenizer& tokenizer = *model_.tokenizer;
  end_ids_.insert(end_ids_.end(), tokenizer.stop_ids().begin(), tokenizer.stop_ids().end());
  if (!end_ids_.empty()) eos_ = end_ids_.front();
  for (const auto& [name, text] : model_.templates.special_tokens) {
    if (name != "eos_token") continue;
    const Ids ids = tokenizer.encode(text, SpecialTokens::written);
    if (ids.size() != 1) continue;
    eos_ = ids.front();
    end_ids_.push_back(ids.front());
  }
  if (default_) {
    if (const auto id = end_of_answer(default_->parsed, model_.templates.special_tokens, tokenizer)) {
      end_ids_.push_back(*id);
    }
  }
  std::sort(end_ids_.begin(), end_ids_.end());
  end_ids_.erase(std::unique(end_ids_.begin(), end_ids_.end()), end_ids_.end());
}

bool ConversationEncoder::is_end(std::int32_t id) const {
  return std::binary_search(end_ids_.begin(), end_ids_.end(), id);
}

bool ConversationEncoder::learns_end(const Sample& sample) const {
  for (std::size_t i = 0; i < sample.ids.size(); ++i) {
    if (sample.learned[i] != 0 && is_end(sample.ids[i])) return true;
  }
  return false;
}

std::vector<Sample> ConversationEncoder::encode(const Conversation& conversation, const std::string& where) const {
  try {
    switch (conversation.form) {
      case Conversation::Form::messages:
        return encode_messages(conversation);
      case Conversation::Form::text:
        return {encode_plain("", conversation.text)};
      case Conversation::Form::ids:
        break;
    }
    return {encode_ids(conversation)};
  } catch (const TemplateError& e) {
    throw BadInput(where, "{}", e.message());
  } catch (const BadInput& e) {
    throw BadInput(where, "{}", e.what());
  }
}

std::vector<Sample> ConversationEncoder::encode_messages(const Conversation& conversation) const {
  if (conversation.is_plain && !default_) {
    const auto& items = conversation.messages.list->items;
    Sample sample = encode_plain(items[0].dict->find("content")->text(), items[1].dict->find("content")->text());
    if (options_.learn == Learn::all) learn_all(sample);
    return {sample};
  }
  Turns turns(*this, conversation);
  if (options_.learn == Learn::all) {
    Sample sample{turns.ids(turns.n_messages(), false), {}};
    learn_all(sample);
    return {sample};
  }
  const bool by_marks =
      options_.mask == Mask::marks || (options_.mask == Mask::automatic && turns.chat_template().has_marks);
  return by_marks ? encode_marks(turns) : encode_difference(turns);
}

std::vector<Sample> ConversationEncoder::encode_difference(Turns& turns) const {
  struct Answer {
    Ids ids;
    std::size_t begin, end;  // of what is learned
  };
  const Ids whole = turns.ids(turns.n_messages(), false);
  std::vector<Answer> answers;
  bool is_one = true;  // the whole conversation contains every answer as it was rendered without what follows
  for (const std::size_t i : turns.answers(options_.learn)) {
    Answer answer;
    answer.ids = i + 1 == turns.n_messages() ? whole : turns.ids(i + 1, false);
    const Ids prompt = turns.ids(i, true);
    answer.begin = common_length(prompt, answer.ids);
    if (answer.begin < prompt.size()) {
      const Ids question = turns.ids(i, false);
      if (!begins_with(answer.ids, question, question.size())) {
        throw BadInput("template", "the question is rendered otherwise once it is answered");
      }
    }
    const auto from = answer.ids.begin() + static_cast<std::ptrdiff_t>(answer.begin);
    const auto last = std::find_if(from, answer.ids.end(), [&](std::int32_t id) { return is_end(id); });
    answer.end = static_cast<std::size_t>(last - answer.ids.begin()) + (last != answer.ids.end() ? 1 : 0);
    is_one = is_one && begins_with(whole, answer.ids, answer.end);
    answers.push_back(std::move(answer));
  }
  std::vector<Sample> samples;
  const auto learn = [](Sample& sample, const Answer& answer) {
    std::fill(sample.learned.begin() + static_cast<std::ptrdiff_t>(answer.begin),
              sample.learned.begin() + static_cast<std::ptrdiff_t>(answer.end), std::uint8_t{1});
  };
  if (is_one) {
    samples.push_back({whole, std::vector<std::uint8_t>(whole.size(), 0)});
    for (const Answer& answer : answers) learn(samples.back(), answer);
    return samples;
  }
  for (Answer& answer : answers) {
    answer.ids.resize(answer.end);
    samples.push_back({answer.ids, std::vector<std::uint8_t>(answer.end, 0)});
    learn(samples.back(), answer);
  }
  return samples;
}

std::vector<Sample> ConversationEncoder::encode_marks(Turns& turns) const {
  const RenderedTemplate whole = turns.render(turns.n_messages(), false);
  Sample sample{turns.encode(whole.text), {}};
  sample.learned.assign(sample.ids.size(), 0);
  std::size_t first = 0;  // the first mark that is learned
  if (turns.n_given() > 0) first = turns.render(turns.n_given(), false).assistant.size();
  if (options_.learn == Learn::last && !whole.assistant.empty()) first = whole.assistant.size() - 1;
  if (first >= whole.assistant.size()) return {sample};
  const std::vector<std::size_t> ends = token_ends(turns.tokenizer(), sample.ids, whole.text);
  for (std::size_t i = first; i < whole.assistant.size(); ++i) {
    const auto [begin, end] = whole.assistant[i];
    learn_span(whole.text, static_cast<std::size_t>(begin), static_cast<std::size_t>(end), ends, sample.learned);
  }
  return {sample};
}

/// BOS, if the tokenizer adds it, comes first, and what ends a text comes last.
Sample ConversationEncoder::encode_plain(std::string_view prompt, std::string_view text) const {
  const Tokenizer& tokenizer = *model_.tokenizer;
  Sample sample;
  if (!prompt.empty()) {
    sample.ids = tokenizer.encode(prompt, SpecialTokens::apply);
    // A tokenizer that ends every text ends the prompt, too.
    const Ids added = tokenizer.encode("", SpecialTokens::apply);
    const bool has_end = !added.empty() && is_end(added.back()) && !sample.ids.empty();
    if (has_end && sample.ids.back() == added.back()) sample.ids.pop_back();
  }
  sample.learned.assign(sample.ids.size(), 0);
  const Ids rest = tokenizer.encode(text, prompt.empty() ? SpecialTokens::apply : SpecialTokens::none);
  sample.ids.insert(sample.ids.end(), rest.begin(), rest.end());
  if (eos_ && (sample.ids.empty() || !is_end(sample.ids.back()))) sample.ids.push_back(*eos_);
  sample.learned.resize(sample.ids.size(), 1);
  return sample;
}

Sample ConversationEncoder::encode_ids(const Conversation& conversation) const {
  for (const std::int32_t id : conversation.ids) {
    if (id < 0 || id >= model_.tokenizer->vocab_size()) {
      throw BadInput("ids", "expected ids below {} (the vocabulary), got {}", model_.tokenizer->vocab_size(), id);
    }
  }
  Sample sample{conversation.ids, conversation.learned};
  if (options_.learn == Learn::all) learn_all(sample);
  return sample;
}

}  // namespace vitrine
