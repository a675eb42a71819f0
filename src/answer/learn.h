// Finds out what a chat template writes for answers, by rendering conversations with it.
#pragma once

#include "answer/format.h"
#include "answer/probe.h"

namespace vitrine::answer {

/// What the template writes. It throws nothing for a template: what it does not write, or what cannot be read back with
/// certainty, is absent, and `reason` says why.
AnswerFormat learn_format(TemplateSource source);

// The parts of learn_format().
/// `variables`: the names that the template reads.
std::optional<ReasoningFormat> learn_reasoning(Prober& prober, const std::vector<std::string>& variables);
/// Throws BadInput with the reason if there are no calls that can be read back.
CallFormat learn_calls(Prober& prober, const AnswerFormat& format);

}  // namespace vitrine::answer
