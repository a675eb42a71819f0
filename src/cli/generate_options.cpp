#include "cli/generate_options.h"

#include <cmath>

#include "base/error.h"
#include "base/mapped_file.h"
#include "constrain/request.h"

namespace vitrine::cli {
namespace {

template <class T>
bool read(const OptionRow& row, const std::string& text, std::optional<T>& place) {
  place = number_in<T>(text);
  if (!place) return false;
  const auto value = static_cast<double>(*place);
  return row.is_of_sampler() ? std::isfinite(value) : row.range.contains(value);
}
bool read(const OptionRow&, const std::string& text, std::optional<std::string>& place) {
  place = text;
  return true;
}
bool read(const OptionRow&, const std::string& text, std::vector<std::string>& list) {
  list.push_back(text);
  return true;
}
bool read(const OptionRow& row, const std::string& text, std::optional<std::vector<std::int32_t>>& ids) {
  ids = parse_ids(text, row.flag());
  return true;
}
bool read(const OptionRow&, const std::string&, bool&) { return false; }  // a flag has no value

/// The value is the text of a file; of a list: its texts.
void read_file(const OptionRow& row, const std::string& path, GenerateOptions& options) {
  const std::string text(MappedFile::open_or_read(path)->text_without_mark());
  if (const auto* const list = std::get_if<std::vector<std::string> GenerateOptions::*>(&row.place)) {
    options.** list = constrain::parse_choices(text);
  } else {
    set_from_text(row, text, options);
  }
}

template <class T>
constexpr bool kIsNumber = false;
template <class T>
constexpr bool kIsNumber<std::optional<T> GenerateOptions::*> = std::is_arithmetic_v<T>;

}  // namespace

bool set_from_text(const OptionRow& row, const std::string& text, GenerateOptions& options) {
  return std::visit([&](auto place) { return read(row, text, options.*place); }, row.place);
}

std::string expected_text(const OptionRow& row) {
  if (!row.is_of_sampler()) return row.expected();
  return std::holds_alternative<int SamplingConfig::*>(row.value) ? "a whole number" : "a number";
}

void add_generate_options(Command& command, OfferedIn place, GenerateOptions& options) {
  for (const OptionRow& row : option_rows()) {
    if (!row.is_in(place)) continue;
    const std::string help = place == kInChat && *row.in_chat != '\0' ? row.in_chat : row.help();
    if (const auto* const flag = std::get_if<bool GenerateOptions::*>(&row.place)) {
      command.add_flag(row.flag(), options.**flag, help);
      continue;
    }
    const auto take = [&row, &options](const std::string& text) {
      if (row.is_file) return read_file(row, text, options);
      if (set_from_text(row, text, options)) return;
      throw UsageError(row.flag(), fmt::format("expected {}, got \"{}\"", expected_text(row), text));
    };
    Option& option = *command.add_option_function(row.flag(), take, help);
    if (!row.names.empty()) option.choices(row.names);
    if (std::visit([](auto p) { return kIsNumber<decltype(p)>; }, row.place)) option.type_name("N");
    if (std::holds_alternative<std::vector<std::string> GenerateOptions::*>(row.place)) option.trigger_on_parse();
  }
}

GenerateRequest translation_of(const Session& session, GenerateOptions options, const std::vector<std::int32_t>& ids,
                               const std::string& where) {
  const std::int64_t most = session.checkpoint.model->config().encoder->max_seq_len;
  if (static_cast<std::int64_t>(ids.size()) > most) {
    throw BadInput(where, "the text has {} tokens, the encoder's context is {}", ids.size(), most);
  }
  options.greedy = true;
  return make_request(session.defaults(), ids, options);
}

}  // namespace vitrine::cli
