// vitrine._engine.Tokenizer: of a model, or of a file.
#include <memory>
#include <optional>

#include "engine.h"

namespace vitrine::python {
namespace {

struct PythonTokenizer {
  std::shared_ptr<const void> owner;
  const Tokenizer* tokenizer;
};

PythonTokenizer of_model(const LanguageModel& model) {
  return {std::make_shared<const LanguageModel>(model), &model.tokenizer()};
}

PythonTokenizer of_file(const std::string& path, const std::string& pattern) {
  const GilReleased free;
  const std::shared_ptr<const Tokenizer> opened =
      watched([path, pattern] { return open_tokenizer(path, {pattern}, poll_signals); });
  return {opened, opened.get()};
}

std::vector<std::int32_t> encode(const PythonTokenizer& t, const std::string& text, const std::string& name) {
  const SpecialTokens policy = name == "apply"  ? SpecialTokens::apply
                               : name == "none" ? SpecialTokens::none
                                                : SpecialTokens::written;
  const GilReleased free;
  if (text.size() < kLongText) return t.tokenizer->encode(text, policy);
  return watched([t, text, policy] { return t.tokenizer->encode(text, policy); });
}

}  // namespace

void bind_tokenizer(nb::module_& m) {
  using nb::literals::operator""_a;
  m.def("tokenizer_of_model", &of_model, "model"_a);
  m.def("open_tokenizer", &of_file, "path"_a, "pattern"_a);
  nb::class_<PythonTokenizer>(m, "Tokenizer")
      .def("encode", &encode, "text"_a, "policy"_a)
      .def(
          "decode",
          [](const PythonTokenizer& t, const std::vector<std::int32_t>& ids) {
            return text_of(t.tokenizer->target().decode(ids));
          },
          "ids"_a)
      .def(
          "piece", [](const PythonTokenizer& t, std::int32_t id) { return text_of(t.tokenizer->piece(id)); }, "id"_a)
      .def(
          "bytes",
          [](const PythonTokenizer& t, std::int32_t id) {
            const std::string bytes = t.tokenizer->bytes(id);
            return nb::bytes(bytes.data(), bytes.size());
          },
          "id"_a)
      .def_prop_ro("vocab_size", [](const PythonTokenizer& t) { return t.tokenizer->vocab_size(); })
      .def_prop_ro("bos", [](const PythonTokenizer& t) { return t.tokenizer->bos(); })
      .def_prop_ro("stop_ids", [](const PythonTokenizer& t) { return t.tokenizer->stop_ids(); });
}

}  // namespace vitrine::python
