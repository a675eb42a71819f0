#include "serve/prediction_field.h"

#include <algorithm>

#include "serve/prompts.h"

namespace vitrine {

std::vector<std::int32_t> read_prediction(const ServedModel& model, RequestFields& fields) {
  const Json* const value = fields.find("prediction");
  if (value == nullptr) return {};
  RequestFields own = fields.of(*value, "prediction");
  const std::string type = own.text("type").value_or("");
  if (type != "content") own.fail("type", fmt::format("expected \"content\", got \"{}\"", type));
  const Json* const content = own.find("content");
  own.finish();
  std::string text;
  if (content != nullptr && content->is_string()) {
    text = content->get<std::string>();
  } else if (content != nullptr && content->is_array()) {
    for (std::size_t i = 0; i < content->size(); ++i) {
      text += text_of_part((*content)[i], own, fmt::format("content[{}]", i));
    }
  } else {
    throw wrong_type("prediction.content", "a text or a list of parts", content != nullptr ? *content : Json());
  }
  if (text.empty()) return {};
  std::vector<std::int32_t> ids = tokenizer_of(model, "prediction").encode(text, SpecialTokens::none);
  ids.resize(std::min(ids.size(), static_cast<std::size_t>(model.max_seq_len)));  // no answer is longer
  return ids;
}

}  // namespace vitrine
