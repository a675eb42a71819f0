// Dictionaries in tests: runs of a model with dictionaries attached.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "features/load_dictionary.h"
#include "inspect/recorder.h"
#include "support/run.h"

namespace vitrine::test {

using Applied = std::vector<AppliedDictionary>;

struct DictionaryRun {
  std::vector<std::string> globs{""}, writes{};
  Applied dictionaries{};
  int threads = 1;
  std::int64_t chunk = 0;  // 0: one pass without a cache
  const Kernels* kernels = &default_kernels();
};

struct DictionaryValues {
  std::map<std::string, std::vector<float>> values;  // of all chunks, one after another
  std::vector<float> logits;
};

inline Applied applied(const std::string& path, const Model& model, DictionaryUse use = DictionaryUse::automatic,
                       const std::string& name = "", const std::string& site = "") {
  ThreadPool pool(1);
  Applied result;
  for (auto& dictionary : load_dictionaries({name, path, site}, model, pool)) result.push_back({dictionary, use});
  return result;
}

inline DictionaryValues run(const Model& model, std::span<const std::int32_t> ids, const DictionaryRun& o) {
  DictionaryValues result;
  std::vector<SiteWrite> writes;
  for (const std::string& text : o.writes) writes.push_back(parse_site_write(text));
  Recorder recorder(o.globs, writes, site_layers(model.config(), o.dictionaries),
                    [&](const SiteId& id, const Tensor& t) {
                      std::vector<float>& all = result.values[name_of(id)];
                      all.insert(all.end(), t.data, t.data + t.count());
                    });
  ThreadPool pool(o.threads);
  Arena arena;
  const auto n = std::ssize(ids);
  std::optional<KvCache> cache;
  if (o.chunk > 0) cache.emplace(model.make_cache(n, {}, system_kv_memory()));
  for (std::int64_t first = 0; first<n; first += o.chunk> 0 ? o.chunk : n) {
    const std::int64_t count = o.chunk > 0 ? std::min(o.chunk, n - first) : n;
    Pass pass{{pool, *o.kernels, arena}, {{0, count, first, cache ? &*cache : nullptr}}};
    pass.segments.front().modifiers.dictionaries = o.dictionaries;
    pass.taps = &recorder;
    pass.logits = {LogitRequest::Rows::range, 0, count, [&](std::int64_t, const Tensor& t) {
                     result.logits.insert(result.logits.end(), t.data, t.data + t.count());
                   }};
    model.forward(pass, ids.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
  }
  return result;
}

}  // namespace vitrine::test
