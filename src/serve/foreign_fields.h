// Fields that OpenAI, vLLM or llama-server document and that no route reads: those that change nothing here, whatever
// their value, and those that would change an answer and are refused.
#pragma once

#include <string_view>
#include <vector>

#include "serve/request_fields.h"

namespace vitrine {

/// The objects in which a field may be.
enum FieldsOf : unsigned {
  kOfCompletion = 1,
  kOfChat = 2,
  kOfVectors = 4,
  kOfTokens = 8,
  kOfMessage = 16,
  kOfPart = 32,  ///< Of a message's content.
};

struct ForeignField {
  std::string_view name;
  unsigned in = 0;             ///< FieldsOf
  std::string_view refusal{};  ///< Why it is refused; "": it changes nothing.
  std::vector<Json> off{};     ///< With these values it changes nothing either, nor if it is null, false or empty.
};

const std::vector<ForeignField>& foreign_fields();

/// Accepts or refuses the foreign fields of an object; where no text is made, it also accepts all fields of requests
/// for texts. Throws RequestError.
void read_foreign(RequestFields& fields, FieldsOf of);

}  // namespace vitrine
