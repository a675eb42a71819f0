#include "tokenizer/post_processor.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "tokenizer/algorithms/piece_table.h"
#include "tokenizer/read/json_fields.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxIds = 1024;  // of a template

std::int32_t to_id(const Json& json, std::string_view where) {
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > PieceTable::kMaxId) {
    throw BadCheckpoint(where, "expected an id from 0 to {} in the post-processor", PieceTable::kMaxId);
  }
  return json.get<std::int32_t>();
}

/// BertProcessing and RobertaProcessing: ["[SEP]", 102].
std::int32_t pair_id(const JsonFields& fields, std::string_view key) {
  const Json& pair = fields.array(key);
  if (pair.size() != 2 || !pair[0].is_string()) {
    throw BadCheckpoint(fields.where(), "expected [token, id] as \"{}\" of the post-processor", key);
  }
  return to_id(pair[1], fields.where());
}

/// The ids of a SpecialToken of the template.
std::vector<std::int32_t> template_ids(const JsonFields& fields, const JsonFields& item) {
  const std::string_view where = fields.where();
  std::vector<std::int32_t> ids;
  const std::string name = JsonFields(item.at("SpecialToken"), "a SpecialToken", where).string("id");
  const JsonFields tokens(fields.at("special_tokens"), "the special_tokens of the template", where);
  for (const Json& id : JsonFields(tokens.at(name), "a special token", where).array("ids")) {
    if (ids.size() == kMaxIds) throw BadCheckpoint(where, "expected at most {} ids in a template", kMaxIds);
    ids.push_back(to_id(id, where));
  }
  return ids;
}

/// Returns nothing unless the template has each of the two texts once.
std::optional<std::vector<PairPart>> parse_pair(const JsonFields& fields) {
  using Kind = PairPart::Kind;
  constexpr std::int64_t kMaxType = 1 << 16;
  if (fields.find("pair") == nullptr) return std::nullopt;
  std::vector<PairPart> parts;
  std::size_t n_ids = 0;
  for (const Json& entry : fields.array("pair")) {
    const JsonFields item(entry, "an entry of the template", fields.where());
    item.allow({"SpecialToken", "Sequence"});
    const bool is_text = item.find("Sequence") != nullptr;
    const JsonFields part(item.at(is_text ? "Sequence" : "SpecialToken"), "an entry of the template", fields.where());
    const std::int64_t type = part.integer("type_id", 0);
    if (type > kMaxType) throw BadCheckpoint(fields.where(), "expected a type_id up to {}, got {}", kMaxType, type);
    PairPart& added = parts.emplace_back(PairPart{Kind::added, static_cast<std::int32_t>(type)});
    if (is_text) {
      added.kind = part.string("id") == "A" ? Kind::first : Kind::second;
    } else {
      added.ids = template_ids(fields, item);
    }
    n_ids += added.ids.size() + 1;
    if (n_ids > 2 * kMaxIds) throw BadCheckpoint(fields.where(), "expected at most {} ids in a template", kMaxIds);
  }
  const auto n = [&](Kind kind) {
    return std::count_if(parts.begin(), parts.end(), [kind](const PairPart& part) { return part.kind == kind; });
  };
  if (n(Kind::first) != 1 || n(Kind::second) != 1) return std::nullopt;
  return parts;
}

PostProcessor parse_template(const JsonFields& fields, std::string_view where) {
  fields.allow({"type", "single", "pair", "special_tokens"});
  PostProcessor result;
  bool has_text = false;
  for (const Json& entry : fields.array("single")) {
    const JsonFields item(entry, "an entry of the template", where);
    item.allow({"SpecialToken", "Sequence"});
    if (item.find("Sequence") != nullptr) {
      const JsonFields sequence(item.at("Sequence"), "the Sequence of the template", where);
      if (sequence.string("id") != "A" || has_text) {
        throw Unsupported(where, "a template that does not contain the text exactly once is not supported");
      }
      has_text = true;
      continue;
    }
    for (const std::int32_t id : template_ids(fields, item)) (has_text ? result.after : result.before).push_back(id);
    if (result.before.size() + result.after.size() > kMaxIds) {
      throw BadCheckpoint(where, "expected at most {} ids in a template", kMaxIds);
    }
  }
  if (!has_text) throw Unsupported(where, "a template without the text is not supported");
  result.pair = parse_pair(fields);
  return result;
}

/// BERT writes [CLS] A [SEP] B [SEP], where the second text and its [SEP] have type 1; RoBERTa writes <s> A </s></s> B
/// </s>, where all types are 0.
PostProcessor around_texts(std::int32_t cls, std::int32_t sep, bool is_bert) {
  using Kind = PairPart::Kind;
  const std::int32_t second = is_bert ? 1 : 0;
  std::vector<PairPart> pair = {{Kind::added, 0, {cls}}, {Kind::first, 0}, {Kind::added, 0, {sep}}};
  if (!is_bert) pair.back().ids.push_back(sep);
  pair.push_back({Kind::second, second});
  pair.push_back({Kind::added, second, {sep}});
  return {{cls}, {sep}, std::move(pair)};
}

/// Of ByteLevel and RobertaProcessing.
std::vector<bool> trims_of(const JsonFields& fields) {
  std::vector<bool> trims;
  if (fields.boolean("trim_offsets", true)) trims.push_back(fields.boolean("add_prefix_space", true));
  return trims;
}

}  // namespace

std::pair<std::size_t, std::size_t> longest_first(std::size_t a, std::size_t b, std::size_t most) {
  if (a + b <= most) return {a, b};
  std::size_t n = std::min(a, b), n_longer = n > most ? n : std::max(n, most - n);
  if (n + n_longer > most) {
    n = most / 2;
    n_longer = n + most % 2;
  }
  const std::size_t first = a > b ? n_longer : n, second = a > b ? n : n_longer;
  return {std::min(first, a), std::min(second, b)};
}

PairEncoding join_pair(const std::vector<PairPart>& parts, std::vector<std::int32_t> first,
                       std::vector<std::int32_t> second, bool adds, std::optional<std::int64_t> most) {
  PairEncoding result;
  if (most) {
    std::int64_t room = *most;
    for (const PairPart& part : parts) room -= adds ? std::ssize(part.ids) : 0;
    if (room < 2) {
      throw BadInput("tokenizer", "expected room for a token of each text, got {} tokens for a pair", *most);
    }
    const auto [n_first, n_second] = longest_first(first.size(), second.size(), static_cast<std::size_t>(room));
    result.is_cut = n_first < first.size() || n_second < second.size();
    first.resize(n_first);
    second.resize(n_second);
  }
  for (const PairPart& part : parts) {
    const std::vector<std::int32_t>& ids = part.kind == PairPart::Kind::first    ? first
                                           : part.kind == PairPart::Kind::second ? second
                                                                                 : part.ids;
    if (part.kind != PairPart::Kind::added || adds) result.ids.insert(result.ids.end(), ids.begin(), ids.end());
    result.types.resize(result.ids.size(), part.type);
  }
  return result;
}

PostProcessor parse_post_processor(const Json& json, std::string_view where) {
  if (json.is_null()) return {};
  const JsonFields fields(json, "the post-processor", where);
  const std::string type = fields.string("type");
  if (type == "ByteLevel") {
    fields.allow({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return {{}, {}, std::nullopt, trims_of(fields)};
  }
  if (type == "TemplateProcessing") return parse_template(fields, where);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    fields.allow({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
    PostProcessor result = around_texts(pair_id(fields, "cls"), pair_id(fields, "sep"), type == "BertProcessing");
    if (type == "RobertaProcessing") result.trims = trims_of(fields);
    return result;
  }
  if (type != "Sequence") throw Unsupported(where, "the post-processor \"{}\" is not supported", type);
  fields.allow({"type", "processors"});
  PostProcessor result;  // each one adds ids around those of its predecessors
  int n_templates = 0;
  for (const Json& part : fields.array("processors")) {
    PostProcessor outer = parse_post_processor(part, where);
    const bool is_template = outer.pair || !outer.before.empty() || !outer.after.empty();
    if (is_template) result.pair = ++n_templates == 1 ? std::move(outer.pair) : std::nullopt;
    result.trims.insert(result.trims.end(), outer.trims.begin(), outer.trims.end());
    result.before.insert(result.before.begin(), outer.before.begin(), outer.before.end());
    result.after.insert(result.after.end(), outer.after.begin(), outer.after.end());
  }
  return result;
}

}  // namespace vitrine
