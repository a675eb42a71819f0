// The taps of requests for texts.
#pragma once

#include "serve/completion_request.h"
#include "serve/site_fields.h"

namespace vitrine {

/// Gives each sequence of a request taps of its own, for the fields of `vitrine`. Throws RequestError for sites and
/// writes that the model lacks, and if the values of all sequences exceed what the server returns.
void add_taps(const ServedModel& model, const SiteFields& sites, CompletionRequest& request);

}  // namespace vitrine
