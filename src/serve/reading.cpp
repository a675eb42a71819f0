#include "serve/reading.h"

#include <algorithm>

#include "base/nearest.h"
#include "serve/prompts.h"

namespace vitrine {

ReadChoice read_choice(const ServedModel& model, RequestFields& fields) {
  ChosenModel chosen = read_model(model, fields);
  ReadChoice choice{std::move(chosen.name), chosen.modifiers(model)};
  const Json* const own = fields.find("vitrine");
  if (own == nullptr || !own->is_object() || !own->contains("attribute")) {
    choice.sites = read_wishes(model, fields, choice.modifiers);
    return choice;
  }
  Json rest = {{"vitrine", *own}};
  rest["vitrine"].erase("attribute");
  RequestFields others(rest, "", model.unknown_fields);
  choice.sites = read_wishes(model, others, choice.modifiers);
  if (!model.can_inspect) {
    throw RequestError(kForbidden, "vitrine", "this server does not let requests read or change values");
  }
  choice.attribute = read_attribute(RequestFields((*own)["attribute"], "vitrine.attribute", model.unknown_fields));
  if (choice.sites && !choice.sites->writes.empty()) {
    throw RequestError(kInvalid, "vitrine.attribute", "expected no \"set\" with it: it explains what the model does");
  }
  return choice;
}

TextCut read_tei_cut(RequestFields& fields) {
  TextCut cut;
  cut.cuts = fields.flag("truncate").value_or(true);
  std::string side = fields.text("truncation_direction").value_or("Right");
  if (side == "left" || side == "right") side[0] = side == "left" ? 'L' : 'R';
  if (side != "Left" && side != "Right") {
    fields.fail("truncation_direction", fmt::format("expected Left or Right, got \"{}\"", side));
  }
  cut.keeps_end = side == "Left";
  return cut;
}

TextCut read_vllm_cut(RequestFields& fields) {
  TextCut cut;
  const auto most = fields.whole<std::int64_t>("truncate_prompt_tokens", -1);
  if (most && *most == 0) fields.fail("truncate_prompt_tokens", "expected -1 or at least 1, got 0");
  if (most && *most > 0) cut.most = *most;
  const std::string side = fields.text("truncation_side").value_or("right");
  if (side != "left" && side != "right") {
    fields.fail("truncation_side", fmt::format("expected left or right, got \"{}\"", side));
  }
  cut.keeps_end = side == "left";
  return cut;
}

std::int64_t prefix_of(const Tokenizer& tokenizer) {
  const auto empty = tokenizer.encode("", SpecialTokens::apply), text = tokenizer.encode("a", SpecialTokens::apply);
  return std::mismatch(empty.begin(), empty.end(), text.begin(), text.end()).first - empty.begin();
}

namespace {

/// Uses the prompt of a name. Throws RequestError.
void use_prompt(SentenceConfig& folder, const std::string& name, const std::string& where) {
  try {
    folder.use_prompt(name, where);
  } catch (const BadInput& e) {
    const std::string place = "[" + where + "] ";
    const std::string_view message = e.what();
    throw RequestError(kInvalid, where, "{}", message.substr(message.starts_with(place) ? place.size() : 0));
  }
}

}  // namespace

void read_prompt_name(SentenceConfig& folder, RequestFields& fields) {
  if (const auto name = fields.text("prompt_name")) use_prompt(folder, *name, fields.name_of("prompt_name"));
}

void read_input_type(SentenceConfig& folder, RequestFields& fields) {
  const auto type = fields.text("input_type");
  if (!type) return;
  if (*type == "query" || *type == "search_query") return folder.use_role(TextRole::query);
  if (*type == "document" || *type == "passage" || *type == "search_document") {
    return folder.use_role(TextRole::document);
  }
  const bool may_lack_prompt = *type == "classification" || *type == "clustering";
  if (!may_lack_prompt || folder.prompts.count(*type) > 0) use_prompt(folder, *type, fields.name_of("input_type"));
}

TextReading reads_outputs() {
  return {"outputs", [](const GenerateContext& context, const TextIds& texts, const ReceiveVector& receive) {
            read_outputs(context, texts, EncodeOptions().max_rows, [&](std::size_t i, const Tensor& outputs) {
              receive(i, {outputs.data, static_cast<std::size_t>(outputs.count())});
            });
          }};
}

TextReading reads_vectors(const SentenceConfig& folder, const VectorOptions& options) {
  const auto number = [](const auto& value) { return value ? static_cast<std::int64_t>(*value) : -1; };
  return {fmt::format("vectors {} {}", number(options.normalize), number(options.dimensions)),
          [=](const GenerateContext& context, const TextIds& texts, const ReceiveVector& receive) {
            read_vectors(context, folder, texts, options,
                         [&](std::size_t i, const TextVectors& vectors) { receive(i, vectors.values); });
          }};
}

namespace {

/// Makes the rows of all tokens of each text.
TextReading reads_rows() {
  return {"rows", [](const GenerateContext& context, const TextIds& texts, const ReceiveVector& receive) {
            const auto prepare = [&](Pass& pass, const std::vector<Segment>& segments,
                                     std::span<const std::size_t> numbers) {
              pass.receive_hidden = [&, numbers](const Tensor& rows) {
                for (std::size_t i = 0; i < numbers.size(); ++i) {
                  check_text(segments[i]);
                  const Tensor own = rows.row_range(segments[i].first_row, segments[i].length);
                  receive(numbers[i], {own.data, static_cast<std::size_t>(own.count())});
                }
              };
            };
            read_texts(context, texts, EncodeOptions().max_rows, prepare);
          }};
}

}  // namespace

TokenReading token_vectors(const ServedModel& model) {
  const bool has_steps = model.sentences.result() == TextValue::tokens;
  return has_steps ? TokenReading{reads_vectors(model.sentences, {}), width_of(model)}
                   : TokenReading{reads_rows(), model.d_model};
}

TextVectors vectors_in(const std::vector<float>& values, std::int64_t width) {
  return {std::ssize(values) / width, width, values};
}

std::int64_t width_of(const ServedModel& model) {
  return vector_width(model.sentences.steps, model.d_model, model.vocab_size);
}

TextCollector::TextCollector(const ServedModel& model, const TextCut& cut)
    : model_(model), cut_(cut), folder_(model.sentences) {
  std::int64_t most = model.max_seq_len;
  if (folder_.max_tokens > 0) most = std::min(most, folder_.max_tokens);
  folder_.max_tokens = std::min(most, cut_.most.value_or(most));
}

/// The largest number of tokens of a text.
std::int64_t TextCollector::most() const { return folder_.most_tokens(); }

void TextCollector::check_length(std::int64_t n, const std::string& where) const {
  if (n > most() && !cut_.cuts) {
    throw RequestError(kTooLong, where, "the text has {} tokens, the model reads at most {}", n, most());
  }
}

void TextCollector::put(std::vector<std::int32_t> ids, std::vector<std::int32_t> types, TextMarks marks,
                        const std::string& where, std::optional<Source> source) {
  check_prompt(model_, ids, where);
  texts_.n_tokens += std::ssize(ids);
  texts_.ids.push_back(std::move(ids));
  texts_.types.push_back(std::move(types));
  texts_.marks.push_back(marks);
  sources_.push_back(std::move(source));
}

void TextCollector::add(const std::string& text, const std::string& where) {
  const Tokenizer& tokenizer = tokenizer_of(model_, where);
  const SpecialTokens policy = folder_.reading.is_table ? SpecialTokens::written : SpecialTokens::apply;
  std::vector<std::int32_t> ids = or_bos(tokenizer.encode(folder_.prepared(text), policy), model_.defaults);
  check_length(std::ssize(ids), where);
  std::int64_t n_lost = 0;  // at the beginning
  if (cut_.keeps_end && std::ssize(ids) > most()) {
    n_lost = std::ssize(ids) - most();
    const auto first = ids.begin() + std::min(prefix_of(tokenizer), most());
    ids.erase(first, first + n_lost);
  }
  ids = truncated(std::move(ids), folder_);
  TextMarks marks = marked(ids, folder_, &tokenizer);
  if (n_lost > 0) marks.n_prompt = std::max(std::min(marks.n_prompt, prefix_of(tokenizer)), marks.n_prompt - n_lost);
  put(std::move(ids), {}, marks, where, Source{folder_.prepared(text)});
}

void TextCollector::add_ids(std::vector<std::int32_t> ids, const std::string& where) {
  check_length(std::ssize(ids), where);
  ids = Truncation{.most = most(), .keeps_end = cut_.keeps_end}.apply(std::move(ids));
  const TextMarks marks = marked(ids, folder_, nullptr);
  put(std::move(ids), {}, marks, where);
}

void TextCollector::add_placed(const PlacedTexts& text, const std::string& where) {
  const bool has_types = model_.model->config().embedding.n_types > 0;
  put(text.ids, has_types ? text.types : std::vector<std::int32_t>(), {}, where);
}

void TextCollector::add_inputs(RequestFields& fields, const char* name) {
  if (const Json* const value = fields.find(name); value != nullptr && value->is_array() && value->empty()) {
    throw RequestError(kEmpty, name, "expected at least one text, got none");
  }
  each_prompt(fields, name, [&](const Json& value, const std::string& where) {
    value.is_string() ? add(value.get<std::string>(), where)
                      : add_ids(read_ids(value, where, model_.vocab_size), where);
    return Prompt{};
  });
}

void TextCollector::add_pair(const std::string& a, const std::string& b, const std::string& where) {
  if (!folder_.pair_template.empty()) {
    const std::int64_t context = model_.model->config().max_seq_len;
    put(templated_pair(tokenizer_of(model_, where), folder_, folder_.prepared(a), b, context), {}, {}, where);
    has_places_ = false;
    return;
  }
  const bool is_chat = folder_.reading.is_chat;
  PairEncoding pair =
      is_chat ? chat_pair(a, b, where) : cut_pair(folder_.prepared(a), folder_.without_prompt(b), where);
  check_length(std::ssize(pair.ids), where);
  const bool has_types = model_.model->config().embedding.n_types > 0 && folder_.gives_types && !is_chat;
  const TextMarks marks = marked(pair.ids, folder_, model_.tokenizer);
  put(std::move(pair.ids), has_types ? std::move(pair.types) : std::vector<std::int32_t>(), marks, where,
      is_chat ? Source{a, b} : Source{folder_.prepared(a), folder_.without_prompt(b)});
}

/// A pair in the model's chat template.
PairEncoding TextCollector::chat_pair(const std::string& a, const std::string& b, const std::string& where) {
  if (!chat_) {
    chat_.emplace(model_.templates, tokenizer_of(model_, where), model_.names.front(), folder_.reading.has_parts);
  }
  const auto most_ids = cut_.cuts ? std::optional(most()) : std::nullopt;
  PairEncoding pair = chat_->encode(folder_.prompt, a, b, most_ids);
  if (pair.is_cut && cut_.keeps_end) {
    throw RequestError(kInvalid, where, "the model reads texts in a chat template, which are cut at their end only");
  }
  return pair;
}

/// A pair of at most most() tokens, if it may be cut.
PairEncoding TextCollector::cut_pair(const std::string& a, const std::string& b, const std::string& where) const {
  const Tokenizer& tokenizer = tokenizer_of(model_, where);
  const auto shortest = cut_.cuts ? std::optional(most()) : std::nullopt;
  PairEncoding pair = tokenizer.encode_pair(a, b, SpecialTokens::apply, shortest);
  if (!pair.is_cut || !cut_.keeps_end) return pair;
  // Each text keeps as many tokens as if it lost its last ones (longest_first), but loses its first ones.
  PairEncoding whole = tokenizer.encode_pair(a, b, SpecialTokens::apply);
  const auto n_of = [&](const std::string& text) { return std::ssize(tokenizer.encode(text, SpecialTokens::written)); };
  const std::ptrdiff_t n_a = n_of(a), n_b = n_of(b), begin_a = prefix_of(tokenizer);
  const std::ptrdiff_t begin_b = std::ssize(whole.ids) - model_.sentences.n_suffix - n_b;
  if (begin_b < begin_a + n_a) {
    throw RequestError(kInvalid, where, "the tokenizer's template of pairs is not known: cut texts at their end");
  }
  const std::ptrdiff_t n_kept = n_a + n_b - (std::ssize(whole.ids) - most());
  const std::ptrdiff_t kept_of_shorter = std::min({n_a, n_b, n_kept / 2});
  const std::ptrdiff_t kept_a = n_a > n_b ? n_kept - kept_of_shorter : kept_of_shorter;
  for (std::vector<std::int32_t>* const values : {&whole.ids, &whole.types}) {
    values->erase(values->begin() + begin_b, values->begin() + begin_b + (n_b - (n_kept - kept_a)));
    values->erase(values->begin() + begin_a, values->begin() + begin_a + (n_a - kept_a));
  }
  return whole;
}

namespace {

[[noreturn]] void refuse_attribute() {
  throw RequestError(kLacksAbility, "vitrine.attribute", "it explains labels and scores of a head, not vectors");
}

}  // namespace

/// The text that a request wants to be explained. Integrated gradients need the places of its words.
LabelText TextCollector::label_text(const AttributeFields& wishes) const {
  const std::size_t i = wishes.document;
  const std::optional<Source>& source = sources_[i];
  LabelText text = label_text_of(texts_.ids[i], texts_.types[i]);
  if (!wishes.integrates) return text;
  if (!has_places_) {
    throw RequestError(kLacksAbility, "vitrine.attribute.method",
                       "pairs in the template of a GGUF file have no words with places: expected direct");
  }
  if (!source) return text;
  text.texts = {source->text};
  if (source->pair) text.texts.push_back(*source->pair);
  const WindowOptions whole{most(), {}, SpecialTokens::apply};
  text.tokens = chat_ ? chat_->encode_placed(folder_.prompt, source->text, source->pair.value_or(""), most())
                      : whole_text(tokenizer_of(model_, "vitrine.attribute"), source->text, source->pair, whole);
  if (text.tokens.ids != texts_.ids[i]) {
    throw RequestError(kInvalid, "vitrine.attribute.method", "ig needs texts that are cut at their end");
  }
  text.tokens.types = texts_.types[i];
  return text;
}

/// Null unless the request wants a text to be explained.
std::shared_ptr<TextAttribution> TextCollector::explain(ReadChoice& choice, TextSteps::Source source) const {
  if (!choice.attribute) return nullptr;
  if (source != TextSteps::Source::outputs && source != TextSteps::Source::next_logits) refuse_attribute();
  if (choice.attribute->document >= texts_.ids.size()) {
    throw RequestError(kInvalid, "vitrine.attribute.document", "expected a number below {}, that of a text, got {}",
                       texts_.ids.size(), choice.attribute->document);
  }
  LabelText text = label_text(*choice.attribute);
  AttributeFields wishes = *std::exchange(choice.attribute, std::nullopt);
  return std::make_shared<TextAttribution>(model_, folder_, std::move(wishes), std::move(text));
}

TextsToRead TextCollector::take(ReadChoice choice, RequestFields& fields, TextSteps::Source source) {
  texts_.modifiers = choice.modifiers;
  texts_.attribution = explain(choice, source);
  texts_.sites = sites_of(model_, std::move(choice), fields, texts_.ids, source);
  return std::move(texts_);
}

std::shared_ptr<TextSites> sites_of(const ServedModel& model, ReadChoice choice, RequestFields& fields,
                                    std::span<const std::vector<std::int32_t>> texts, TextSteps::Source source) {
  if (choice.attribute) refuse_attribute();
  if (!choice.sites || choice.sites->empty()) return nullptr;
  const RequestFields own = fields.of(*fields.find("vitrine"), "vitrine");
  return std::make_shared<TextSites>(model, own, std::move(*choice.sites), texts, source);
}

Json with_sites(Json reply, Json texts) {
  if (!reply.is_object()) reply = {{"data", std::move(reply)}};
  reply["vitrine"] = {{"texts", std::move(texts)}};
  return reply;
}

Json with_attribution(Json reply, const Json& attribution) {
  if (!reply.is_object()) reply = {{"data", std::move(reply)}};
  reply["vitrine"]["attribution"] = attribution;
  return reply;
}

const TaskHead& classes_of(const ServedModel& model) {
  const auto& head = model.model->config().task;
  if (head && head->task == TaskHead::Task::classify) return *head;
  throw RequestError(kLacksAbility, "model", "the model has no labels of texts: it is no classifier");
}

const TaskHead& tags_of(const ServedModel& model) {
  const auto& head = model.model->config().task;
  if (head && head->task == TaskHead::Task::tag) return *head;
  throw RequestError(kLacksAbility, "model", "the model has no labels of tokens: it is no token classifier");
}

void require_vectors(const ServedModel& model) {
  const ModelConfig& config = model.model->config();
  if (makes_vectors(config, model.sentences)) return;
  if (model.sentences.has_modules) {
    throw RequestError(kLacksAbility, "model", "the model scores pairs of texts: it makes no vectors");
  }
  throw RequestError(kLacksAbility, "model", "the model has a head for {} and no modules.json: it makes no vectors",
                     words(TaskHead::Task{})[static_cast<std::size_t>(config.task->task)]);
}

void require_one_vector(const ServedModel& model) {
  require_vectors(model);
  if (model.sentences.result() == TextValue::vector) return;
  throw RequestError(kLacksAbility, "model",
                     "the model makes a vector of each token, not one of a text: use /embed_all or /pooling");
}

}  // namespace vitrine
