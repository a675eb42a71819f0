#include "train/lens/id_lists.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/fingerprint.h"
#include "base/json.h"
#include "base/mapped_file.h"

namespace vitrine {
namespace {

/// The ids of a line.
std::vector<std::int32_t> parse_ids(std::string_view line, const std::string& where, const ModelConfig& model) {
  const Json value = parse_json(line, where);
  const Json list = value.is_object() ? value.value("ids", Json()) : value;
  if (!list.is_array() || list.empty()) throw BadInput(where, "expected a list of ids as in [464, 3139]");
  std::vector<std::int32_t> ids;
  for (const Json& id : list) {
    if (!id.is_number_integer() || id < 0 || id >= model.vocab_size) {
      throw BadInput(where, "expected ids from 0 to {}, got {}", model.vocab_size - 1, id.dump());
    }
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

}  // namespace

IdLists IdLists::read(const std::string& path, const Model& model, std::int64_t longest) {
  const auto file = MappedFile::open_or_read(path);
  const ModelConfig& config = model.config();
  std::string_view rest = file->text_without_mark();
  IdLists lists;
  for (std::int64_t n_lines = 1; !rest.empty(); ++n_lines) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const std::string where = fmt::format("{}, line {}", path, n_lines);
    const std::vector<std::int32_t> all = parse_ids(line, where, config);
    std::span<const std::int32_t> ids = all;
    if (longest > 0) ids = ids.first(std::min(ids.size(), static_cast<std::size_t>(longest)));
    if (std::ssize(ids) > config.max_seq_len) {
      throw BadInput(where, "the list has {} ids, the model's context is {}; train.seq_len cuts lists", ids.size(),
                     config.max_seq_len);
    }
    model.refuse_placeholders(ids);
    lists.add(ids);
  }
  if (lists.size() == 0) throw BadInput(path, "expected a list of ids on each line, got an empty file");
  return lists;
}

void IdLists::keep_from(std::int64_t shortest) {
  IdLists kept;
  for (std::int64_t i = 0; i < size(); ++i) {
    if (std::ssize((*this)[i]) >= shortest) kept.add((*this)[i]);
  }
  *this = std::move(kept);
}

std::uint64_t IdLists::fingerprint() const {
  Fingerprint fingerprint;
  fingerprint.add(std::as_bytes(std::span(ids_)));
  fingerprint.add(std::as_bytes(std::span(begins_)));
  return fingerprint.value();
}

}  // namespace vitrine
