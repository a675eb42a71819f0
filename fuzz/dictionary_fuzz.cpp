// A dictionary of features, `N FILE #next FILE …`: the number of its format (features/format.cpp) and the format's
// files. Reads it for a tiny model and runs it.
#include "checkpoint/load.h"
#include "features/format.h"
#include "features/load_dictionary.h"
#include "folder.h"
#include "fuzzing.h"
#include "tiny_checkpoint.h"

using namespace vitrine;

namespace {

/// Wants every value of the dictionaries, so that they are computed.
class AllValues : public Taps {
 public:
  bool wants(const SiteId& id) const override { return id.dictionary != nullptr; }
  Tensor visit(Pass&, const SiteId&, const Tensor& value) override { return value; }
};

void exercise(const Model& model, const std::vector<std::shared_ptr<const Dictionary>>& dictionaries) {
  ThreadPool pool(1);
  const std::vector<std::int32_t> ids = {1, 2, 3};
  for (const DictionaryUse use : {DictionaryUse::read, DictionaryUse::replace}) {
    std::vector<AppliedDictionary> applied;
    for (const auto& dictionary : dictionaries) applied.push_back({dictionary, use});
    Arena arena;
    AllValues taps;
    Pass pass{{pool, default_kernels(), arena}, {{0, 3, 0, nullptr}}};
    pass.segments.front().modifiers.dictionaries = applied;
    if (use == DictionaryUse::read) pass.taps = &taps;  // else the encoder runs in panels
    std::int64_t n_rows = 0;
    pass.logits = {LogitRequest::Rows::range, 0, 3, [&](std::int64_t, const Tensor& t) { n_rows += t.rows(); }};
    model.forward(pass, ids);
    fuzz::expect(n_rows == 3 || pass.segments.front().failure, "every token has logits");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Folder model_folder, folder;
  static const Checkpoint checkpoint = [] {
    model_folder.put("config.json", fuzz::kTinyConfig);
    fuzz::write_tensors(model_folder.path() + "/model.safetensors", fuzz::tiny_tensors());
    return load_checkpoint(model_folder.path());
  }();
  const std::string_view text = fuzz::text_of(data, size);
  if (text.size() < 2) return 0;
  const std::span<const DictionaryFormat> formats = dictionary_formats();
  const auto number = static_cast<unsigned char>(text.front() - '0') % formats.size();
  const DictionaryFormat& format = formats[number];
  std::vector<std::string> files = format.files;
  if (format.name == "circuit-tracer") files.emplace_back("layer_0.safetensors");
  const std::string path = folder.path() + "/" + std::to_string(number);
  std::filesystem::create_directories(path + "/checkpoints");
  std::string_view rest = text.substr(2);
  for (std::size_t i = files.size(); i-- > 0;) {
    const auto [before, own] = i > 0 ? fuzz::cut(rest, "#next") : std::pair(std::string_view(), rest);
    folder.put(std::to_string(number) + "/" + files[i], own);
    rest = before;
  }
  return fuzz::answer([&] {
    const bool has_site = format.name != "Gemma Scope" && format.name != "sparsify";  // they name it in their path
    ThreadPool pool(1);
    const DictionaryText own{"", path, has_site ? "" : "blocks.0.hook_resid_post"};
    exercise(*checkpoint.model, load_dictionaries(own, *checkpoint.model, pool));
  });
}
