#include "generate/open_probe.h"

#include "base/error.h"
#include "features/probe.h"
#include "pass/dictionary_sites.h"

namespace vitrine {

void add_probe(OpenedModel& model, const std::string& text, ThreadPool& pool) {
  const DictionaryText own = parse_dictionary_text(text, "--probe", "FILE");
  auto loaded = load_probe(own, *model.checkpoint.model, pool);
  for (const AppliedDictionary& other : model.applied.dictionaries) {
    if (!is_probe(*other.dictionary) || other.dictionary->name != loaded->name) continue;
    throw BadInput(own.path, "another probe is probe.{}: give each a name, as in --probe NAME=FILE", loaded->name);
  }
  model.applied.dictionaries.push_back({std::move(loaded), DictionaryUse::read});
}

}  // namespace vitrine
