// Opens linear probes of a model.
#pragma once

#include <string>

#include "generate/open_model.h"

namespace vitrine {

/// Attaches the probe [NAME=]FILE[@SITE] to all passes of the model, after its dictionaries. Throws BadInput for a text
/// that is malformed and for a name that another probe has, and as load_probe() does.
void add_probe(OpenedModel& model, const std::string& text, ThreadPool& pool);

}  // namespace vitrine
