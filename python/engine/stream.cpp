// vitrine._engine.Stepper, a text that grows as it is read, and generate().
#include <optional>

#include "engine.h"

namespace vitrine::python {
namespace {

template <class T>
bool read(const nb::object& value, std::optional<T>& place) {
  T read{};
  if (!nb::try_cast(value, read)) return false;
  place = std::move(read);
  return true;
}
template <class T>
bool read(const nb::object& value, T& place) {
  return nb::try_cast(value, place);
}

/// What generate and stream take: the options that are offered in Python, of which `prefix` may also be ids, and hooks.
GenerateOptions options_of(const nb::dict& given) {
  GenerateOptions options;
  for (const OptionRow& row : option_rows()) {
    if (!row.is_in(kInPython) || !given.contains(row.name)) continue;
    const nb::object value = given[row.name];
    if (row.name == std::string_view("prefix")) {
      Prompt prefix = prompt_of(value);
      if (auto* const ids = std::get_if<std::vector<std::int32_t>>(&prefix)) options.prefix_ids = std::move(*ids);
      if (auto* const text = std::get_if<std::string>(&prefix)) options.prefix = std::move(*text);
      continue;
    }
    if (std::visit([&](auto place) { return read(value, options.*place); }, row.place)) continue;
    raise_bad_input(std::string("[") + row.name + "] expected " + row.expected() + ", got " + nb::repr(value).c_str());
  }
  if (given.contains("hooks")) {
    options.watch = watch_of(nb::object(given["hooks"]), nb::cast<std::vector<std::string>>(given["hook_sites"]));
  }
  return options;
}

nb::tuple report_of(const TokenReport& token) {
  nb::list top;
  for (const TokenLogprob& t : token.top) top.append(nb::make_tuple(t.id, t.logprob));
  return nb::make_tuple(token.id, token.logprob, top, token.removed);
}

/// (text, ids, finish_reason, stop_id, logprobs, [(text, ids, score) of a search])
nb::tuple result_of(const GenerateResult& result) {
  nb::list logprobs;
  for (const TokenReport& token : result.logprobs) logprobs.append(report_of(token));
  const std::string reason(name_of(result.finish_reason));
  const std::optional<std::int32_t> stop_id = result.stop_token ? std::optional(result.stop_token->id) : std::nullopt;
  nb::list hypotheses;
  for (const TextHypothesis& h : result.hypotheses) hypotheses.append(nb::make_tuple(text_of(h.text), h.ids, h.score));
  return nb::make_tuple(text_of(result.text), result.ids, reason, stop_id, logprobs, hypotheses);
}

nb::tuple generate(const LanguageModel& model, const nb::object& prompt, const nb::dict& given) {
  const Prompt text = prompt_of(prompt);
  const GenerateOptions options = options_of(given);
  GenerateResult result;
  {
    const GilReleased free;
    result = model.generate(text, options);
  }
  return result_of(result);
}

class Stepper {
 public:
  Stepper(const LanguageModel& model, const Prompt& prompt, const GenerateOptions& options)
      : text_(model.stepper(prompt, options)) {}

  std::optional<std::string> next() {
    const InUse in_use(flag_, "stream");
    const GilReleased free;
    return text_ ? text_->next() : std::nullopt;
  }
  void close() {
    const InUse in_use(flag_, "stream");
    text_.reset();
  }
  nb::tuple result() {
    const InUse in_use(flag_, "stream");
    if (!text_) raise_bad_input("[stream] expected a text that has ended, got one that was closed");
    return result_of(text_->result());
  }

 private:
  std::optional<TextStepper> text_;
  std::atomic_flag flag_;
};

void open_stepper(Stepper* place, const LanguageModel& model, const nb::object& prompt, const nb::dict& given) {
  const Prompt text = prompt_of(prompt);
  const GenerateOptions options = options_of(given);
  const GilReleased free;
  new (place) Stepper(model, text, options);
}

nb::object next_of(Stepper& stepper) {
  const std::optional<std::string> piece = stepper.next();
  return piece ? text_of(*piece) : nb::none();
}

}  // namespace

void bind_stream(nb::module_& m) {
  using nb::literals::operator""_a;
  m.def("generate", &generate, "model"_a, "prompt"_a, "options"_a);
  nb::class_<Stepper>(m, "Stepper")
      .def("__init__", &open_stepper, "model"_a, "prompt"_a, "options"_a)
      .def("next", &next_of)
      .def("close", &Stepper::close)
      .def("result", &Stepper::result);
}

}  // namespace vitrine::python
