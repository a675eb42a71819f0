#include "tokenizer/post_processor.h"

#include <string>

#include "base/error.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/piece_table.h"

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
    const std::string name = JsonFields(item.at("SpecialToken"), "a SpecialToken", where).string("id");
    const JsonFields tokens(fields.at("special_tokens"), "the special_tokens of the template", where);
    for (const Json& id : JsonFields(tokens.at(name), "a special token", where).array("ids")) {
      (has_text ? result.after : result.before).push_back(to_id(id, where));
      if (result.before.size() + result.after.size() > kMaxIds) {
        throw BadCheckpoint(where, "expected at most {} ids in a template", kMaxIds);
      }
    }
  }
  if (!has_text) throw Unsupported(where, "a template without the text is not supported");
  return result;
}

}  // namespace

PostProcessor parse_post_processor(const Json& json, std::string_view where) {
  if (json.is_null()) return {};
  const JsonFields fields(json, "the post-processor", where);
  const std::string type = fields.string("type");
  if (type == "ByteLevel") {
    fields.allow({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return {};
  }
  if (type == "TemplateProcessing") return parse_template(fields, where);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    fields.allow({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
    return {{pair_id(fields, "cls")}, {pair_id(fields, "sep")}};
  }
  if (type != "Sequence") throw Unsupported(where, "the post-processor \"{}\" is not supported", type);
  fields.allow({"type", "processors"});
  PostProcessor result;  // each one adds ids around those of its predecessors
  for (const Json& part : fields.array("processors")) {
    const PostProcessor outer = parse_post_processor(part, where);
    result.before.insert(result.before.begin(), outer.before.begin(), outer.before.end());
    result.after.insert(result.after.end(), outer.after.begin(), outer.after.end());
  }
  return result;
}

}  // namespace vitrine
