#include "inspect/feature_indexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/fingerprint.h"
#include "inspect/feature_index.h"
#include "inspect/feature_reader.h"
#include "inspect/write_feature_index.h"
#include "pass/dictionary_sites.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgress = "progress.safetensors";

/// A padded list, so that each feature has as many bytes.
void append_logits(AppendFile& to, std::vector<LogitWeight> logits) {
  logits.resize(kIndexLogits, {-1, 0});
  to.append(std::as_bytes(std::span(logits)));
}

bool is_skipped(const AppliedDictionary& applied, std::int32_t id) {
  return applied.skipped != nullptr && std::ranges::binary_search(applied.skipped->ids, id);
}

}  // namespace

std::string unfinished_folder(const std::string& folder) { return folder + "/unfinished"; }

/// A dictionary and what is known of its features.
struct FeatureIndexer::Sae {
  Sae(const AppliedDictionary& own, std::int64_t n_contexts, const std::string& contexts_path,
      std::int64_t contexts_size)
      : applied(own),
        contexts(contexts_path, contexts_size),
        records(own.dictionary->d_sae(), n_contexts, own.dictionary->selection.kind == FeatureSelection::Kind::abstopk,
                contexts) {}

  AppliedDictionary applied;
  AppendFile contexts;
  FeatureRecords records;
  std::int64_t tokens = 0;
  std::vector<WindowActivation> window{};  // that is being read
};

/// Collects the activations of a window.
class FeatureIndexer::Reader : public Taps {
 public:
  explicit Reader(FeatureIndexer& own) : own_(own) {
    for (const auto& sae : own_.saes_) {
      const SiteId id = sae->applied.dictionary->at(DictionarySite::acts_post);
      if (!last_ || precedes(*last_, id)) last_ = id;
    }
  }
  bool wants(const SiteId&) const override { return false; }
  Tensor visit(Pass&, const SiteId&, const Tensor& value) override { return value; }
  bool wants_sparse(const SiteId& id) const override { return find(id) != nullptr; }
  void visit_sparse(Pass& pass, const SiteId& id, const SparseRows& rows) override {
    if (pass.shapes_only) return;
    std::vector<WindowActivation>& to = find(id)->window;
    auto position = static_cast<std::int32_t>(pass.segments.front().position);
    for (const std::vector<SparseValue>& row : rows.rows) {
      for (const auto& [feature, value] : row) {
        if (value != 0) to.push_back({feature, position, value});
      }
      ++position;
    }
  }
  std::optional<SiteId> last_wanted() const override { return last_; }

 private:
  Sae* find(const SiteId& id) const {
    if (id.value != DictionarySite::acts_post) return nullptr;
    for (const auto& sae : own_.saes_) {
      if (&sae->applied.dictionary->name == id.dictionary) return sae.get();
    }
    return nullptr;
  }

  FeatureIndexer& own_;
  std::optional<SiteId> last_{};
};

FeatureIndexer::FeatureIndexer(const GenerateContext& context, std::string folder, IndexOptions options)
    : context_(context),
      folder_(std::move(folder)),
      options_(std::move(options)),
      reading_(context.modifiers.dictionaries.begin(), context.modifiers.dictionaries.end()) {
  for (AppliedDictionary& applied : reading_) applied.use = DictionaryUse::read;
  context_.modifiers.dictionaries = reading_;
  fingerprint_ = fingerprint();
  std::error_code error;
  if (fs::exists(file(kProgress), error)) {
    load(file(kProgress));
    return;
  }
  fs::create_directories(unfinished_folder(folder_), error);
  if (error) throw BadInput(folder_, "cannot create the folder: {}", error.message());
  for (std::size_t i = 0; i < reading_.size(); ++i) {
    saes_.push_back(std::make_unique<Sae>(reading_[i], options_.contexts, file(fmt::format("contexts-{}.bin", i)), 0));
  }
}

FeatureIndexer::~FeatureIndexer() = default;

/// What the model and the dictionaries make of the first window: the same only if nothing that matters has changed.
std::uint64_t FeatureIndexer::fingerprint() const {
  const CorpusWindow window = options_.window_at(0);
  Fingerprint all;
  all.add(std::as_bytes(std::span(window.ids)));
  for (const ActiveFeatures& own : read_features(context_, window.ids)) {
    for (const std::vector<SparseValue>& row : own.rows.rows) all.add(std::as_bytes(std::span(row)));
  }
  return all.value();
}

void FeatureIndexer::load(const std::string& path) {
  const SafetensorsFile from = SafetensorsFile::open(path);
  const auto it = from.metadata().find("progress");
  if (it == from.metadata().end()) throw BadCheckpoint(path, "expected the progress of an index of features");
  const Json progress = parse_json(it->second, path);
  try {
    for (const auto& [key, value] : options_.settings.items()) {
      const Json was = progress.at("settings").value(key, Json());
      if (was == value) continue;
      throw BadInput(folder_, "{} was {} when the index was begun and is now {}; choose another folder, or remove {}",
                     key, was.dump(), value.dump(), unfinished_folder(folder_));
    }
    if (progress.at("fingerprint").get<std::string>() != fmt::format("{:016x}", fingerprint_)) {
      throw BadInput(folder_,
                     "features have other values than when the index was begun: expected the same model, "
                     "dictionaries and corpus");
    }
    next_ = progress.at("next").get<std::int64_t>();
    windows_ = progress.at("windows").get<std::int64_t>();
    for (std::size_t i = 0; i < reading_.size(); ++i) {
      const Json& own = progress.at("saes").at(i);
      saes_.push_back(std::make_unique<Sae>(reading_[i], options_.contexts, file(fmt::format("contexts-{}.bin", i)),
                                            own.at("contexts_size").get<std::int64_t>()));
      saes_.back()->tokens = own.at("tokens").get<std::int64_t>();
      saes_.back()->records.read(from, fmt::format("{}.", i));
    }
  } catch (const Json::exception& e) {
    throw BadCheckpoint(path, "expected the progress of an index of features: {}", e.what());
  }
  if (next_ < 0 || windows_ < 0) throw BadCheckpoint(path, "expected a place in the corpus, got {}", next_);
}

void FeatureIndexer::save() {
  constexpr std::int64_t kTensors = 5;
  SafetensorsWriter to(file(kProgress), 65'536 + header_bytes_for(kTensors * saes_.size()));
  Json saes = Json::array();
  for (const auto& sae : saes_) {
    sae->contexts.sync();
    saes.push_back({{"contexts_size", sae->contexts.size()}, {"tokens", sae->tokens}});
  }
  const Json progress = {{"settings", options_.settings},
                         {"fingerprint", fmt::format("{:016x}", fingerprint_)},
                         {"next", next_},
                         {"windows", windows_},
                         {"saes", std::move(saes)}};
  to.set_metadata("progress", progress.dump());
  for (std::size_t i = 0; i < saes_.size(); ++i) saes_[i]->records.write(to, fmt::format("{}.", i));
  to.commit();
}

void FeatureIndexer::read(std::int64_t end, const ReportProgress& report) {
  Reader reader(*this);
  try {
    while (next_ < end) {
      const CorpusWindow window = options_.window_at(next_);
      for (const auto& sae : saes_) sae->window.clear();
      visit_features(context_, window.ids, reader);
      for (const auto& sae : saes_) {
        sae->records.add(next_, sae->window);
        sae->tokens +=
            std::ranges::count_if(window.ids, [&](std::int32_t id) { return !is_skipped(sae->applied, id); });
      }
      next_ = window.next;
      if (++windows_ % options_.save_every == 0) save();
      if (report) report(next_, end);
    }
  } catch (const Interrupted&) {
    save();
    throw;
  }
  save();
}

/// What the file has of a job that was killed is used: each part is written to disk before the next begins.
void FeatureIndexer::add_logits(std::size_t number, const ReportProgress& report) {
  constexpr std::int64_t kFeaturesAtOnce = 1024;
  constexpr auto kBytes = static_cast<std::int64_t>(2 * kIndexLogits * sizeof(LogitWeight));
  const Dictionary& dictionary = *reading_[number].dictionary;
  const std::string path = file(fmt::format("logits-{}.bin", number));
  std::error_code error;
  const auto known = static_cast<std::int64_t>(fs::exists(path, error) ? fs::file_size(path, error) : 0);
  std::int64_t first = std::min(dictionary.d_sae(), known / kBytes / kFeaturesAtOnce * kFeaturesAtOnce);
  AppendFile to(path, first * kBytes);
  while (first < dictionary.d_sae()) {
    const std::int64_t n = std::min(kFeaturesAtOnce, dictionary.d_sae() - first);
    std::vector<std::vector<float>> directions;
    for (std::int64_t i = 0; i < n; ++i) directions.push_back(direction_of(dictionary, first + i));
    for (ExtremeLogits& extremes : extreme_logits(context_, directions, kIndexLogits)) {
      append_logits(to, std::move(extremes.top));
      append_logits(to, std::move(extremes.bottom));
    }
    to.sync();
    first += n;
    if (report) report(first, dictionary.d_sae());
  }
}

void FeatureIndexer::finish(const ReportProgress& report) {
  for (std::size_t i = 0; i < saes_.size(); ++i) {
    const Sae& sae = *saes_[i];
    const Dictionary& d = *sae.applied.dictionary;
    if (sae.tokens == 0)
      throw BadInput("--sae-skip", "expected a token at which the dictionary is not skipped, got none");
    const bool has_logits = is_in_stream(*context_.model, d);
    if (has_logits) add_logits(i, report);
    const std::string key = index_key(d);
    IndexFacts facts;
    facts.facts = {{"settings", options_.settings},
                   {"tokens", sae.tokens},
                   {"windows", windows_},
                   {"sae",
                    {{"key", key},
                     {"name", d.name.empty() ? Json() : Json(d.name)},
                     {"site", name_of(d.output)},
                     {"architecture", d.architecture},
                     {"d_in", d.d_in()},
                     {"d_sae", d.d_sae()},
                     {"is_signed", sae.records.is_signed()}}}};
    facts.contexts_path = sae.contexts.path();
    if (has_logits) facts.logits_path = file(fmt::format("logits-{}.bin", i));
    facts.ids_at = [this](std::int64_t start) { return options_.window_at(start).ids; };
    facts.texts = options_.texts;
    write_feature_index(folder_ + "/" + key + ".safetensors", sae.records, facts);
  }
  std::error_code error;
  fs::remove(file(kProgress), error);  // first: what remains of a removal that was interrupted is no progress
  fs::remove_all(unfinished_folder(folder_), error);
}

}  // namespace vitrine
