// Why a text has a label, or a document its score: attribute --class and --document.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"

namespace vitrine::cli {

struct AttributeArguments : Options {
  std::string word, file, method = "direct", by;  ///< by: "" is the default
  std::optional<std::string> against, label, baseline;
  std::optional<std::int64_t> document;
  std::vector<std::string> documents;
  std::int64_t position = -1, steps = 64;
  bool ablate = false;
};

/// Prints the parts of the label's output, or the integrated gradients of words.
void run_attribute_label(const AttributeArguments& options);

}  // namespace vitrine::cli
