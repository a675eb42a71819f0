#include "cli/sampling.h"

namespace vitrine::cli {

void add_sampling(CLI::App& command, SamplingOverrides& sampling) {
  add_number<double>(command, "--temperature", sampling.temperature,
                     "Divide the logits by N; 0: greedy (default: 0.8)");
  add_number<int>(command, "--top-k", sampling.top_k,
                  "Sample only from the N most likely tokens; 0: from all (default: 40)");
  add_number<double>(command, "--top-p", sampling.top_p,
                     "Sample only from the most likely tokens whose probabilities add up to N (default: 0.95)");
  add_number<double>(command, "--min-p", sampling.min_p,
                     "Sample only from tokens at least N times as likely as the most likely one (default: 0)");
  add_number<double>(command, "--repeat-penalty", sampling.repeat_penalty,
                     "Above 1: tokens that occur in the text become less likely (default: 1)");
  command.add_flag("--greedy", sampling.greedy, "Always take the most likely token");
}

}  // namespace vitrine::cli
