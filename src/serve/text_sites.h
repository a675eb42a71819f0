// Reading and changing the values of a forward of texts that a model reads whole.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "serve/site_fields.h"
#include "serve/text_task.h"

namespace vitrine {

/// The values that a request selects, of each of its texts. Such a text is read in a pass of its own, so its values are
/// those of `vitrine trace`.
class TextSites {
 public:
  /// Throws RequestError for names and writes that the model lacks, and if the values of all texts exceed what the
  /// server returns; Unsupported for a model with an encoder and a decoder. `fields`: those with `sites` and `set`.
  /// `source`: what is read of the forward.
  TextSites(const ServedModel& model, const RequestFields& fields, SiteFields wishes,
            std::span<const std::vector<std::int32_t>> texts, TextSteps::Source source);

  /// The reading of a task that reads all texts in their order, and records them in `sites`.
  static TextReading recorded(std::shared_ptr<TextSites> sites, TextReading reading);
  /// After it: `[{"sites": [{"name", "shape", "data"}]}]`, one for each text, with `features` if they are wanted.
  Json json() const;

 private:
  const ServedModel& model_;
  SiteFields wishes_;
  std::vector<std::vector<SequenceRecorder::Recorded>> values_;
  std::vector<std::vector<ActiveFeatures>> features_{};
};

}  // namespace vitrine
