#include "cli/probe_options.h"

#include "generate/open_probe.h"

namespace vitrine::cli {

void add_probes(Command& command, ProbeOptions& o) {
  add_list(command, "--probe", o.probes,
           "Read the site probe.NAME: the logits of the linear probe FILE at every token, as [NAME=]FILE[@SITE] "
           "(vitrine probe train); may be given several times");
}

void open_probes(const Options& o, const ProbeOptions& probes, Session& session) {
  if (o.ranks != nullptr && !probes.probes.empty()) {
    throw Unsupported("--split", "expected a model without probes (--probe)");
  }
  for (const std::string& text : probes.probes) vitrine::add_probe(session, text, *session.pool);
}

}  // namespace vitrine::cli
