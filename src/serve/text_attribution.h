// The member "attribute" of a request: why a text has a label, or a document its score.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "inspect/label_report.h"
#include "serve/request_fields.h"
#include "serve/served_model.h"
#include "serve/text_task.h"

namespace vitrine {

/// What is explained, and how.
struct AttributeFields {
  std::size_t document = 0;  ///< The number of the text in the request.
  std::optional<std::string> label{}, against{};
  bool integrates = false;  ///< Integrated gradients, else the direct split.
  bool by_head = true;
  std::int64_t steps = 64;
  std::optional<Json> baseline{};  ///< Checked: an id or a text.
};

/// The fields `class`, `against`, `document`, `method`, `by`, `steps` and `baseline`. Throws RequestError.
AttributeFields read_attribute(RequestFields fields);

/// The attribution of one text of a request, by a run of its own after the text is read.
class TextAttribution {
 public:
  /// Throws RequestError for a model without labels and LogitScore, for a label that it lacks, or one that is not named
  /// although there are several, and for a baseline that is no token.
  TextAttribution(const ServedModel& model, const SentenceConfig& folder, AttributeFields wishes, LabelText text);

  /// The reading of a task that reads all texts in their order.
  static TextReading explained(std::shared_ptr<TextAttribution> attribution, TextReading reading);
  /// After it: what `vitrine attribute --json` prints.
  const Json& json() const { return json_; }

 private:
  std::int32_t baseline_id() const;
  void run(const GenerateContext& context);

  const ServedModel& model_;
  AttributeFields wishes_;
  LabelText text_;
  NamedLabel label_;
  PathOptions path_;
  std::size_t n_read_ = 0;
  Json json_;
};

}  // namespace vitrine
