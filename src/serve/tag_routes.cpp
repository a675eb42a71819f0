// Labels of tokens: /predict and / of a token classifier, with the fields of huggingface_hub's client and the answer of
// transformers' token-classification pipeline. Source: huggingface_hub, InferenceClient.token_classification.
#include <algorithm>

#include "generate/tag.h"
#include "serve/prompts.h"
#include "serve/reading.h"

namespace vitrine {
namespace {

constexpr std::int64_t kMaxWindowIds = 1 << 22;  // of a request

/// The fields `parameters`.
struct TagForm {
  TagRules rules{};
  std::optional<std::int64_t> stride{};
};

TagForm read_form(RequestFields& fields) {
  TagForm form;
  const Json* const parameters = fields.find("parameters");
  if (parameters == nullptr) return form;
  RequestFields own = fields.of(*parameters, "parameters");
  if (const auto name = own.text("aggregation_strategy")) {
    const auto names = words(Aggregation());
    const auto found = std::ranges::find(names, *name);
    if (found == names.end()) {
      own.fail("aggregation_strategy", fmt::format("expected {}, got \"{}\"", fmt::join(names, ", "), *name));
    }
    form.rules.aggregation = static_cast<Aggregation>(found - names.begin());
  }
  if (own.find("ignore_labels") != nullptr) {
    form.rules.ignored = *own.get<std::vector<std::string>>("ignore_labels", "a list of labels");
  }
  form.stride = own.whole<std::int64_t>("stride", 0);
  if (form.stride && form.rules.aggregation == Aggregation::none) {
    own.fail("stride", "windows that overlap need another aggregation_strategy than none");
  }
  own.finish();
  return form;
}

/// A text with its windows, whose outputs are next to each other.
struct WindowedText {
  std::string text;
  std::vector<PlacedTexts> windows;
};

/// The texts of the field `inputs`, in windows.
class TagTexts {
 public:
  TagTexts(const ServedModel& model, const TextCut& cut, const TagForm& form)
      : tokenizer_(tokenizer_of(model, "inputs")), cuts_(cut.cuts), texts_(model, cut) {
    options_ = {texts_.folder().max_tokens, form.stride, SpecialTokens::apply};
  }

  void add(const std::string& text, const std::string& where) {
    WindowedText own{text, windows(text)};
    if (own.windows.front().is_cut && !cuts_) {
      throw RequestError(kTooLong, where, "the text has more tokens than the {} that the model reads", options_.most);
    }
    for (const PlacedTexts& window : own.windows) texts_.add_placed(window, where);
    all_.push_back(std::move(own));
  }
  TextsToRead take(ReadChoice choice, RequestFields& fields) {
    return texts_.take(std::move(choice), fields, TextSteps::Source::outputs);
  }
  std::vector<WindowedText> texts() { return std::move(all_); }

 private:
  std::vector<PlacedTexts> windows(const std::string& text) {
    if (options_.stride) check_size(text);
    try {
      return windows_of(tokenizer_, text, {}, options_);
    } catch (const BadInput& e) {
      const std::string_view message = e.what();
      const bool is_stride = message.starts_with("[--stride] ");
      if (!is_stride) throw;
      throw RequestError(kInvalid, "parameters.stride", "{}", message.substr(message.find(' ') + 1));
    }
  }

  /// Windows that hardly move would have many more ids than the text.
  void check_size(const std::string& text) {
    const std::int64_t around = std::ssize(tokenizer_.encode("", SpecialTokens::apply));
    const std::int64_t step = std::max<std::int64_t>(options_.most - around - *options_.stride, 1);
    const std::int64_t n = std::ssize(tokenizer_.encode(text, SpecialTokens::none));
    n_ids_ += (n / step + 1) * std::min(options_.most, n + around);
    if (n_ids_ <= kMaxWindowIds) return;
    throw RequestError(kTooMany, "parameters.stride", "the windows have more than {} tokens: expected a smaller stride",
                       kMaxWindowIds);
  }

  const Tokenizer& tokenizer_;
  bool cuts_;
  TextCollector texts_;
  WindowOptions options_;
  std::vector<WindowedText> all_;
  std::int64_t n_ids_ = 0;
};

/// Adds a text, or each of a list. Returns whether it is a list.
bool read_inputs(RequestFields& fields, TagTexts& texts) {
  constexpr const char* kName = "inputs";
  const auto inputs = fields.get<std::vector<std::string>>(kName, "a string or a list of strings");
  if (!inputs) fields.fail(kName, "expected a string or a list of strings, got none");
  if (inputs->empty()) throw RequestError(kEmpty, kName, "expected at least one text, got none");
  if (inputs->size() > kMaxTexts) {
    throw RequestError(kTooMany, kName, "expected at most {} texts, got {}", kMaxTexts, inputs->size());
  }
  for (std::size_t i = 0; i < inputs->size(); ++i) texts.add((*inputs)[i], fmt::format("{}[{}]", kName, i));
  return fields.find(kName)->is_array();
}

}  // namespace

namespace routes {

std::shared_ptr<PendingReply> predict_tags(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json, "", model.unknown_fields);
  ReadChoice choice = read_choice(model, fields);
  const TaskHead& head = tags_of(model);
  const TagForm form = read_form(fields);
  const TextCut cut = read_tei_cut(fields);
  if (cut.keeps_end) fields.fail("truncation_direction", "expected Right: labels of tokens are those of a beginning");
  fields.refuse("raw_scores", "is not supported for labels of tokens");
  fields.find("inputs");
  fields.finish();
  TagTexts texts(model, cut, form);
  const bool is_list = read_inputs(fields, texts);
  TextsToRead all = texts.take(std::move(choice), fields);
  const auto write = [&tokenizer = *model.tokenizer, &head, rules = form.rules, is_list, texts = texts.texts()](
                         const ReadReply::Values& outputs, const JobTimes&) {
    Json lists = Json::array();
    std::size_t first = 0;
    for (const WindowedText& own : texts) {
      const auto values = std::span(outputs).subspan(first, own.windows.size());
      lists.push_back(spans_json(spans_of(tokenizer, head, rules, own.text, own.windows, values)));
      first += own.windows.size();
    }
    return is_list ? lists : Json(lists.front());
  };
  return std::make_shared<ReadReply>(std::move(all), request, reads_outputs(), write);
}

}  // namespace routes

}  // namespace vitrine
