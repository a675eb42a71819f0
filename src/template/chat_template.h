// Chat templates: Jinja templates that turn a conversation into the text that a model reads.
//
// Source of the behavior: `apply_chat_template` of transformers 5.23 on jinja2 3.1.6, which defines the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "template/error.h"

namespace vitrine {

namespace jinja {
struct Tree;
struct Value;
class Heap;
}  // namespace jinja

/// The date and time that `strftime_now` formats.
struct TemplateClock {
  int year = 1970, month = 1, day = 1, hour = 0, minute = 0, second = 0, microsecond = 0;

  static TemplateClock now();
  /// Parses `2026-01-02`, or `2026-01-02T03:04:05[.678]`. Throws BadInput.
  static TemplateClock parse(std::string_view iso);
};

/// What bounds a rendering. jinja2 has no bounds, and a template is a program from a file.
struct TemplateLimits {
  std::int64_t steps = 20'000'000;
  std::size_t value_bytes = std::size_t{256} << 20;
  std::size_t output_bytes = std::size_t{64} << 20;
};

/// Values that templates read: JSON with the order of its keys, and integers apart from floats, as Python reads it.
class TemplateData {
 public:
  /// Parses JSON. `where` names it in errors. Throws BadInput.
  static TemplateData parse(std::string_view json, std::string_view where);

  const jinja::Value& value() const { return *value_; }
  /// The value of a key, or null if there is none or the value is no JSON object.
  const jinja::Value* member(std::string_view name) const;

 private:
  std::shared_ptr<jinja::Heap> heap_;
  std::shared_ptr<const jinja::Value> value_;
};

/// The input of a rendering. Values must stay valid while it runs.
struct TemplateInput {
  const jinja::Value* messages = nullptr;   ///< a list of messages
  const jinja::Value* tools = nullptr;      ///< null: none
  const jinja::Value* documents = nullptr;  ///< null: none
  bool add_generation_prompt = false;
  /// Special tokens by name, such as `bos_token`; `variables` of the same name replace them.
  std::vector<std::pair<std::string, std::string>> special_tokens;
  std::vector<std::pair<std::string_view, const jinja::Value*>> variables;
  TemplateClock now;
  bool reports_literal = false;  ///< fill RenderedTemplate::literal
};

struct RenderedTemplate {
  std::string text;
  /// The bytes [begin, end) of each `{% generation %}`, which mark what the assistant says.
  std::vector<std::pair<std::int64_t, std::int64_t>> assistant;
  /// The bytes [begin, end) that the template wrote itself: its text, its constants, special tokens from
  /// `special_tokens`, numbers. All other bytes came with the conversation, so what they spell is no special token.
  std::vector<std::pair<std::int64_t, std::int64_t>> literal;
};

/// A parsed template.
class ChatTemplate {
 public:
  /// Parses a template. Throws TemplateError (syntax).
  /// BadInput if it is not UTF-8.
  explicit ChatTemplate(std::string_view source);

  /// Renders a conversation. Keys of messages with the value null are dropped, and `reasoning_content`, `thinking` and
  /// `reasoning` are filled from each other. Throws TemplateError where the reference fails and where a limit is
  /// reached, BadInput for messages, tools or documents of the wrong form.
  RenderedTemplate render(const TemplateInput& input, const TemplateLimits& limits = {}) const;

  /// The names of the variables that the template reads and does not set before, in ascending order.
  std::vector<std::string> variables() const;

 private:
  std::shared_ptr<const jinja::Tree> tree_;
};

}  // namespace vitrine
