// The logits of probes at the tokens of a text, as commands and the server show them.
#pragma once

#include <span>

#include "base/json.h"
#include "inspect/sequence_recorder.h"
#include "pass/dictionary_sites.h"

namespace vitrine {

/// The sites of all probes, as a glob.
constexpr const char* kProbeGlob = "probe.*";

/// Whether one of the dictionaries is a probe, or is none.
bool has_probes(AppliedDictionaries all);
bool has_features(AppliedDictionaries all);

/// `[{"name", "tokens": [[logit, …], …]}]` of those of the recorded values that are a probe's.
Json probe_values_json(std::span<const SequenceRecorder::Recorded> values);

}  // namespace vitrine
