#include "template/chat_template.h"

#include <algorithm>
#include <set>

#include "template/evaluate.h"
#include "template/format.h"
#include "template/json.h"
#include "template/parser.h"
#include "template/text.h"

namespace vitrine {

using namespace jinja;

TemplateData TemplateData::parse(std::string_view json, std::string_view where) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
  TemplateData data;
  data.heap_ = std::make_shared<Heap>(kMaxBytes);
  data.value_ = std::make_shared<const Value>(parse_json_value(*data.heap_, json, where));
  return data;
}

const jinja::Value* TemplateData::member(std::string_view name) const {
  return value_->is(Kind::dict) ? value_->dict->find(name) : nullptr;
}

namespace {

constexpr std::string_view kReasoningNames[] = {"reasoning_content", "thinking", "reasoning"};

/// The characters [begin, end) of a text as bytes.
std::vector<std::pair<std::int64_t, std::int64_t>> byte_spans(
    std::string_view text, const std::vector<std::pair<std::int64_t, std::int64_t>>& spans) {
  std::vector<std::pair<std::int64_t, std::int64_t>> result;
  for (const auto& [begin, end] : spans) result.emplace_back(byte_of(text, begin), byte_of(text, end));
  return result;
}

/// Builds the variables that a template reads.
class Variables {
 public:
  /// `origins` may be null.
  Variables(Heap& heap, const TemplateInput& input, Origins* origins) : heap_(heap), input_(input), all_(heap) {
    for (const auto& [name, token] : input.special_tokens) {
      const Value value = string(heap, token);
      if (origins != nullptr) origins->add(value.text());
      set(name, value);
    }
    for (const auto& [name, value] : input.variables) set(name, *value);
  }

  void add_conversation() {
    set("messages", messages());
    set("tools", input_.tools == nullptr ? none() : objects(*input_.tools, "tools"));
    set("documents", input_.documents == nullptr ? none() : objects(*input_.documents, "documents"));
    set("add_generation_prompt", boolean(input_.add_generation_prompt));
  }
  const Dict& all() const { return all_; }

 private:
  void set(std::string_view name, const Value& value) { all_.set(string(heap_, name), value); }

  static Value objects(const Value& value, std::string_view name) {
    if (value.is_none()) return value;
    const bool fits = value.is(Kind::list) && std::all_of(value.list->items.begin(), value.list->items.end(),
                                                          [](const Value& item) { return item.is(Kind::dict); });
    if (!fits) throw BadInput(name, "expected a list of JSON objects, got {}", shown(value));
    return value;
  }

  static std::string shown(const Value& value) {
    return value.is(Kind::list) ? "a list with other values" : std::string(type_name(value));
  }

  Value messages() const {
    if (input_.messages == nullptr) throw BadInput("messages", "expected a list of messages, got none");
    objects(*input_.messages, "messages");
    if (input_.messages->is_none()) throw BadInput("messages", "expected a list of messages, got null");
    List* const made = heap_.make<List>(heap_);
    made->items.reserve(input_.messages->list->items.size());
    for (const Value& message : input_.messages->list->items) made->items.push_back(prepared(*message.dict));
    return list(made);
  }

  /// The message without keys whose value is null, and with its reasoning under the names that templates read.
  Value prepared(const Dict& message) const {
    Dict* const made = heap_.make<Dict>(heap_);
    made->entries.reserve(message.entries.size() + 2);
    Value reasoning = none();
    for (const std::string_view name : kReasoningNames) {
      const Value* const found = message.find(name);
      if (reasoning.is_none() && found != nullptr) reasoning = *found;
    }
    if (!reasoning.is_none()) made->set(borrowed(heap_, "thinking"), reasoning);
    for (const Dict::Entry& entry : message.entries) {
      if (!entry.value.is_none()) made->set(entry.key, entry.value);
    }
    if (!reasoning.is_none()) made->set(borrowed(heap_, "reasoning_content"), reasoning);
    return dict(made);
  }

  Heap& heap_;
  const TemplateInput& input_;
  Dict all_;
};

RenderedTemplate render_tree(const Tree& tree, Heap& heap, const Dict& variables, const TemplateInput& input,
                             const TemplateLimits& limits, Origins* origins) {
  Evaluator evaluator(tree, heap, variables, input.now, limits, origins);
  RenderedTemplate result;
  Draft written = evaluator.run();
  result.literal = written.spans();
  result.text = written.take();
  result.assistant = byte_spans(result.text, evaluator.spans());
  return result;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source) {
  if (!is_utf8(source)) throw BadInput("template", "expected UTF-8");
  tree_ = parse(source);
}

RenderedTemplate ChatTemplate::render(const TemplateInput& input, const TemplateLimits& limits) const {
  Heap heap(limits.value_bytes);
  Origins known;
  Origins* const origins = input.reports_literal ? &known : nullptr;
  if (origins != nullptr) origins->add(tree_->heap);
  Variables variables(heap, input, origins);
  variables.add_conversation();
  return render_tree(*tree_, heap, variables.all(), input, limits, origins);
}

std::vector<std::string> ChatTemplate::variables() const {
  std::set<std::string_view> assigned = {"loop", "caller", "kwargs", "varargs"}, read;
  for (const Tree::Use& use : tree_->uses) {
    if (use.is_macro) assigned.insert(use.name);  // one may use another that comes later
  }
  for (const Tree::Use& use : tree_->uses) {
    if (use.is_assignment) {
      assigned.insert(use.name);
    } else if (!assigned.contains(use.name) && global(use.name).is_missing()) {
      read.insert(use.name);
    }
  }
  return {read.begin(), read.end()};
}

}  // namespace vitrine
