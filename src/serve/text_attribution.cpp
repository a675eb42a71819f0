#include "serve/text_attribution.h"

#include <algorithm>

#include "serve/prompts.h"

namespace vitrine {
namespace {

constexpr const char* kAttribute = "vitrine.attribute";
constexpr std::int64_t kMaxSteps = 256;  // the scheduler makes nothing else meanwhile

std::string place(const char* name) { return fmt::format("{}.{}", kAttribute, name); }

/// One of two words. Returns whether it is the second one.
bool is_second(RequestFields& fields, const char* name, const char* first, const char* second, bool otherwise) {
  const auto word = fields.text(name);
  if (word && *word != first && *word != second) {
    fields.fail(name, fmt::format("expected {} or {}, got \"{}\"", first, second, *word));
  }
  return word ? *word == second : otherwise;
}

/// The label that a request names. Throws RequestError.
NamedLabel label_of(const ServedModel& model, const SentenceConfig& folder, const AttributeFields& wishes) {
  const auto& head = model.model->config().task;
  if (head && head->task != TaskHead::Task::classify) {
    throw RequestError(kLacksAbility, kAttribute, "the model has no labels of texts: it is no classifier");
  }
  const auto refusal = [](const ErrorKind& kind, const Error& e) {
    std::string_view where = e.what();  // "[WHERE] …"
    const std::size_t end = where.find("] ");
    const std::string_view message = where.substr(end + 2);
    where = where.substr(1, end - 1);
    return RequestError(kind, where == "attribute" ? kAttribute : std::string(where), "{}", message);
  };
  try {
    return named_label(model.model->config(), folder, model.tokenizer,
                       {wishes.label, wishes.against, place("class"), place("against")});
  } catch (const BadInput& e) {
    throw refusal(kInvalid, e);
  } catch (const Unsupported& e) {
    throw refusal(kLacksAbility, e);
  }
}

/// The token of one of these names.
std::int32_t token_named(const Tokenizer& tokenizer, std::initializer_list<std::string_view> names) {
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (std::ranges::count(names, tokenizer.piece(id)) > 0) return id;
  }
  throw RequestError(kInvalid, place("baseline"), "the vocabulary has no {}: expected the id of a token",
                     fmt::join(names, " or "));
}

}  // namespace

AttributeFields read_attribute(RequestFields fields) {
  AttributeFields wishes;
  wishes.document = fields.whole<std::size_t>("document", 0).value_or(0);
  wishes.label = fields.text("class");
  wishes.against = fields.text("against");
  wishes.integrates = is_second(fields, "method", "direct", "ig", false);
  wishes.by_head = is_second(fields, "by", "component", "head", true);
  wishes.steps = fields.whole<std::int64_t>("steps", 1, kMaxSteps).value_or(wishes.steps);
  if (const Json* const baseline = fields.find("baseline")) {
    if (!baseline->is_string() && !baseline->is_number_integer()) {
      throw wrong_type(fields.name_of("baseline"), "pad, mask or an id", *baseline);
    }
    wishes.baseline = *baseline;
  }
  fields.finish();
  return wishes;
}

TextAttribution::TextAttribution(const ServedModel& model, const SentenceConfig& folder, AttributeFields wishes,
                                 LabelText text)
    : model_(model), wishes_(std::move(wishes)), text_(std::move(text)), label_(label_of(model, folder, wishes_)) {
  if (!wishes_.integrates) return;
  path_.baseline = baseline_id();
  path_.steps = wishes_.steps;
  path_.keeps = text_.kept();
}

std::int32_t TextAttribution::baseline_id() const {
  if (wishes_.baseline && wishes_.baseline->is_number_integer()) {
    return read_ids(Json::array({*wishes_.baseline}), place("baseline"), model_.vocab_size).front();
  }
  const std::string name = wishes_.baseline ? wishes_.baseline->get<std::string>() : model_.pad_id ? "pad" : "mask";
  if (name == "mask") return token_named(tokenizer_of(model_, place("baseline")), {"[MASK]", "<mask>"});
  if (name != "pad") {
    throw RequestError(kInvalid, place("baseline"), "expected pad, mask or an id, got \"{}\"", name);
  }
  if (model_.pad_id) return *model_.pad_id;
  throw RequestError(kInvalid, place("baseline"), "the model's config has no pad_token_id: expected mask or an id");
}

void TextAttribution::run(const GenerateContext& context) {
  const Tokens tokens(text_.tokens.ids, text_.tokens.types);
  if (!wishes_.integrates) {
    json_ = parts_json(text_, label_, attribute_label(context, tokens, label_.choice, wishes_.by_head));
    return;
  }
  const TokenAttribution found = integrate_gradients(context, tokens, label_.choice, path_);
  json_ = words_json(text_, label_, path_, found, label_words(text_, found.tokens, model_.tokenizer));
}

TextReading TextAttribution::explained(std::shared_ptr<TextAttribution> attribution, TextReading reading) {
  const auto read = [own = std::move(attribution), inner = std::move(reading.read)](
                        const GenerateContext& context, const TextIds& texts, const ReceiveVector& receive) {
    inner(context, texts, receive);
    const std::size_t first = own->n_read_;
    own->n_read_ += texts.ids.size();
    if (first <= own->wishes_.document && own->wishes_.document < own->n_read_) own->run(context);
  };
  return {"", read};
}

}  // namespace vitrine
